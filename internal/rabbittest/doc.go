// Package rabbittest gives tests a real RabbitMQ: queues of their own, a publisher with confirms, and what the broker still
// holds, all through a connection that has nothing to do with the transport under test. A test that needs it fails without a
// broker; scripts/broker provides one.
package rabbittest
