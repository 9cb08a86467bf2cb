// Package resources knows what was acquired, who owns it, in which order it is disposed, and what was observed of its end.
//
// A flag turns true only on an observation:
//
//	succeeded => terminal => started => owned
//
// There are three ways in. [Registry.Own] takes something that [Registry.Dispose] ends, once; [Registry.Track] something of
// ours that is ended elsewhere and reports its end through a [Tracked]; [Registry.Borrow] something that is somebody else's.
//
// It does not know phases, deliveries or brokers.
package resources
