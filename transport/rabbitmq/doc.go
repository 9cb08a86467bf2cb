// Package rabbitmq is the transport for RabbitMQ, on amqp091-go with its recovery switched off: a session is one
// connection and never becomes another, a stream is one channel with one consumer.
//
// It knows AMQP 0-9-1 and what RabbitMQ makes of it. It does not know handlers, phases or the report, and is the only package
// that imports amqp091-go.
//
//	Session --- conn ------------- the socket: cut, frames seen as they leave, how the peer ended
//	   |          ^   ^
//	   |          |   '----------- amqp091: handshake, requests, deliveries
//	Stream -- writer ------------- settlements, encoded here, one write(2) per pass
//	   |-- read ------------------ Deliver, and what the prefetch window proves
//	   '-- life ------------------ evidence, and Ended last of all
//
// # Proof
//
// RabbitMQ never confirms a settlement. What proves one is an answer on the same channel that was asked for after it, or a
// delivery that the prefetch would not have allowed without it. On a quorum queue the broker keeps back what exceeds 32
// settlement frames not yet applied, and drops it when the channel closes. So [transport.Stream] Close counts frames: up to 32
// need nothing; more, and the consumer is cancelled after the last of them, which goes through the queue's log; more after a
// cancel that came earlier, and a consumer that takes nothing comes and goes on another channel, which goes through the log too.
// Where that does not fit into the time, the close says that it could not prove them. A queue that was only declared passively may
// be a quorum queue and is closed like one.
package rabbitmq
