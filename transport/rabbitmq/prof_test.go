package rabbitmq_test

import (
	"testing"
	"github.com/lastcall-go/lastcall/transport"
)

func BenchmarkOurs(b *testing.B) {
	a := newAdmin(b)
	var c cost
	for b.Loop() {
		c.add(measure(b, a, transport.DeclareClassic, ourConsumer))
	}
	b.ReportMetric(c.rate(), "msgs/s")
	b.ReportMetric(c.perMessage(), "cpu-µs/msg")
}
