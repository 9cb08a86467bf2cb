// Package arch holds the tree to its own rules, in tests that read the source and nothing else: which package may import
// which (arrows_test.go), who reads the clock and catches signals (clock_test.go), and what is documented
// (documentation_test.go). It has no code that runs anywhere else.
//
//	cmd -> managed -> coordinator -> resources -> report
//	          |            |             |
//	          |            +--> deadline <+         report, deadline: no sibling
//	          +--> signals                          signals: no sibling
//	          +--> transport (contract)             transport/rabbitmq alone imports amqp091-go
//	cmd -> transport/rabbitmq, transport/memory
//
// Hidden folders, testdata and nested modules are no part of the tree.
package arch
