// Package transporttest states the contract of package transport as a suite that every transport passes:
//
//	func TestConformance(t *testing.T) {
//		transporttest.Run(t, transporttest.Harness{New: …, NewQueue: …, Publish: …, Drain: …, Faults: …})
//	}
//
// Each test dials sessions of its own, records every call of every Sink, and holds the calls against the contract: what may
// be said, in which order, how often. At its end it holds what the transport claimed against what the broker still has, and
// looks for goroutines left behind. It runs in real time, outside testing/synctest, since most brokers are reached by sockets.
package transporttest
