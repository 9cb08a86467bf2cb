package signals

import (
	"os"
	"os/signal"
	"syscall"
)

// pending is how many signals may wait for the Monitor. os/signal drops what finds its channel full; nobody sends that many
// before the Monitor, which never blocks, has taken the first.
const pending = 64

// Notify catches SIGINT, SIGTERM and SIGQUIT, and only those, from now on: they no longer end the process by themselves. Call
// it first thing in main; a signal that comes before has the default effect, which ends the process.
//
// stop gives the signals their default effect back, unless somebody else in the process has asked for them as well. Until
// then, and while nobody reads ch, they have none. ch is never closed. stop is idempotent and does not block.
func Notify() (ch <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, pending)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	return c, func() { signal.Stop(c) }
}

// OutlivePipes makes writes to a broken stdout or stderr fail like any other write. By default the Go runtime ends the process
// over them, in the middle of a shutdown and without a report. Child processes keep the default effect. It lasts until the
// process ends.
func OutlivePipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // Ignore would be inherited; nobody reads the channel
}
