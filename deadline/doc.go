// Package deadline holds all arithmetic of time in Lastcall and is the only package that reads the clock.
//
// It knows instants, durations and how one total is split. It does not know what is being ended: no broker, no phase, no
// resource, and it imports no sibling.
//
//	start                              graceful      F        C     D  telemetry  hard
//	  |------------- drain ---------------|-- force --|-- close --|--|------|-----|
//	                                      |<------------- reserve ----------------->|
//
// A deadline is an absolute instant that only ever shortens; a timeout is a duration; a budget is what is left.
package deadline
