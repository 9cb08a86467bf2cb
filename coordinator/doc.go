// Package coordinator runs phases and actions under one root deadline.
//
//	close_admission -> drain -> force -> close_evidence -> dispose -> publish
//
// Every phase runs, in this order, whatever became of the one before; only an abandonment cuts the sequence short. Whatever
// hangs is left behind and named, so that the shutdown is over by its hard deadline.
//
// It knows order, bounds and outcomes. It does not know what an action does: no broker, no delivery, no handler.
package coordinator
