package rabbitmq_test

import (
	"testing"

	"github.com/lastcall-go/lastcall/internal/faultproxy"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

// nonsense is a basic.qos on a channel that nobody has opened: the broker closes the connection with 504.
var nonsense = []byte{1, 0x07, 0xD0, 0, 0, 0, 11, 0, 60, 0, 10, 0, 0, 0, 0, 0, 1, 0, 0xCE}

func TestConformance(t *testing.T) {
	a := newAdmin(t)
	rigs := make(map[transport.Transport]rig)
	var now rig
	of := func(transport.Session) *faultproxy.Proxy { return now.proxy }
	transporttest.Run(t, transporttest.Harness{
		New: func(t testing.TB) transport.Transport {
			now = newRig(t)
			rigs[now.Transport] = now
			return now.Transport
		},
		NewQueue: func(t testing.TB, o transporttest.QueueOptions) string { return a.queue(t, o) },
		Publish:  a.publish,
		Drain:    a.drain,
		Kinds:    []transport.Declare{transport.DeclareClassic, transport.DeclareQuorum},
		Patience: patience,
		Faults: transporttest.Faults{
			Drop: func(t testing.TB, s transport.Session) {
				of(s).Inject(s.Info().LocalAddr, faultproxy.ToServer, nonsense)
			},
			Reset: func(t testing.TB, s transport.Session) { of(s).Reset(s.Info().LocalAddr) },
			Silence: func(t testing.TB, s transport.Session) func() {
				of(s).Set(faultproxy.ToServer, faultproxy.Stall)
				of(s).Set(faultproxy.ToClient, faultproxy.Stall)
				return func() {
					of(s).Set(faultproxy.ToServer, faultproxy.Pass)
					of(s).Set(faultproxy.ToClient, faultproxy.Pass)
				}
			},
			SilenceDial: func(t testing.TB, tr transport.Transport) func() {
				rigs[tr].proxy.Silent(true)
				return func() { rigs[tr].proxy.Silent(false) }
			},
			DeleteQueue: a.delete,
		},
	})
}
