// Package transport is the broker boundary: the contract that every transport meets and package transporttest states.
//
// It speaks in sessions, streams, deliveries, settlements and evidence, and is written for what RabbitMQ, NATS JetStream,
// Kafka, SQS and Service Bus have in common. It does not know handlers, outcomes, phases or the report.
//
//	Transport --Dial--> Session (one connection) --Consume--> Stream (one subscription's channel)
//	                       |                                     |  ^
//	                       End                     Sink: Deliver,  Submit(*Settlement)
//	                                               Written, Proven, Observe, Ended
//
// One Session never becomes another: whoever wants to go on after its end dials again and gets new objects. That is the
// fence: a settlement submitted to a stream can reach no other session than the one that delivered.
package transport
