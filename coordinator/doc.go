// Package coordinator runs phases and actions under one root deadline.
//
//	close_admission -> drain -> force -> close_evidence -> dispose -> publish
//
// It knows order, bounds and outcomes. It does not know what an action does: no broker, no delivery, no handler.
package coordinator
