// Package managedtest tests handlers and whole consumers without a broker: a handler is called with a made-up delivery, a
// consumer runs on the in-process broker, is stopped, and its report returned.
package managedtest
