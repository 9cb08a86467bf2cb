// Package memory is a broker inside the process, and the transport to it: real queues, prefetch, round-robin consumers,
// redelivery in the original position, delivery counts and limits, dead letters, and faults on request.
//
// It is the default of the demo and of users' tests, and works in testing/synctest bubbles. It knows the contract of package
// transport and nothing above it. It models what a consumer can observe of RabbitMQ, not RabbitMQ: there are no exchanges
// (a message is published to a queue), no confirms, no TTL, no priorities.
//
//	Publish --> queue [returned | fresh] --round robin--> stream.in ==reader==> Sink.Deliver
//	              ^                                                                  |
//	              +--- requeue, cut, close --- outstanding <==writer== submitted <-- Submit
//
// One lock guards the broker's side of everything. Each stream has two goroutines, a reader and a writer, which hold it for
// one batch at a time and never while they call a Sink.
package memory
