//go:build unix && !linux

package managed

import "os/exec"

// awaitExit returns when the leader has exited, and whether it has been reaped. Here the one cannot be had without the other.
func awaitExit(cmd *exec.Cmd) (reaped bool) {
	_ = cmd.Wait()
	return true
}
