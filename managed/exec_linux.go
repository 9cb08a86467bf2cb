package managed

import (
	"os/exec"
	"syscall"
)

const waitPID = 1 // P_PID of waitid(2)

// awaitExit returns when the leader has exited, and whether it has been reaped. Here it is left a zombie, so that what it
// left of its group can still be killed.
func awaitExit(cmd *exec.Cmd) (reaped bool) {
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitPID, uintptr(cmd.Process.Pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		switch errno {
		case 0:
			return false
		case syscall.EINTR:
		default: // a sandbox without it
			_ = cmd.Wait()
			return true
		}
	}
}
