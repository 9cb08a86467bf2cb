// Command benchmarks compares Lastcall with what people use instead, on one broker in one run: bare amqp091-go and
// watermill-amqp. It is a module of its own, so that the peers stay out of Lastcall's.
//
//	go run . -rounds 5 -messages 60000 -json results.json
//
// Every round runs every contender once, in turn; the figures are medians over the rounds.
package main
