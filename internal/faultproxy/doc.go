// Package faultproxy is a small TCP proxy for tests that spoils what passes through it, per direction and on request.
//
// It listens on the loopback interface only and knows bytes, not protocols: a test that wants a fault at a certain request
// names the bytes to wait for. Every goroutine is joined by Close.
//
//	p, err := faultproxy.New(broker)                       // client -> p.Addr() -> broker
//	p.Set(faultproxy.ToClient, faultproxy.Discard)         // from now on the client hears nothing
//	p.When(faultproxy.ToServer, cancelFrame, p.ResetAll)   // a reset in the moment the cancel passes
package faultproxy
