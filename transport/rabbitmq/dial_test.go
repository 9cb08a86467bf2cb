package rabbitmq_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
	"github.com/lastcall-go/lastcall/transport/transporttest"
)

func TestDialSaysWhoThePeerIs(t *testing.T) {
	noLeaks(t)
	s := dial(t, newTransport(t, rabbitmq.Config{URL: brokerURL(), ConnectionName: "lc.rmq.info"}))
	got := s.Info()
	host, _, err := net.SplitHostPort(got.LocalAddr)
	if err != nil || host == "" || got.Version == "" || !strings.Contains(got.Node, "@") {
		t.Errorf("%+v", got)
	}
	got.LocalAddr, got.Version, got.Node = "", "", ""
	if diff := cmp.Diff(transport.Info{Product: "RabbitMQ", VHost: "/", ConnectionName: "lc.rmq.info"}, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

// serve accepts connections and does with each what f says, until the test ends.
func serve(t *testing.T, l net.Listener, f func(net.Conn)) {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				f(c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDialErrorsSayWhatCanBeDone(t *testing.T) {
	noLeaks(t)
	free := listen(t)
	_ = free.Close()
	quitter := listen(t) // takes the greeting and leaves
	serve(t, quitter, func(c net.Conn) { _, _ = c.Read(make([]byte, 8)) })
	talker := listen(t) // is no broker
	serve(t, talker, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	with := func(change func(*url.URL)) string {
		u, err := url.Parse(brokerURL())
		if err != nil {
			t.Fatal("LASTCALL_TEST_AMQP_URL cannot be read")
		}
		change(u)
		return u.String()
	}
	hopeless := errors.New("the vault is sealed")
	for name, c := range map[string]struct {
		cfg   rabbitmq.Config
		want  transport.ErrorKind
		code  int
		cause error
	}{
		"nobody listens":                {cfg: rabbitmq.Config{URL: brokerAt(t, free.Addr().String())}, want: transport.KindUnavailable},
		"the peer leaves":               {cfg: rabbitmq.Config{URL: brokerAt(t, quitter.Addr().String())}, want: transport.KindUnavailable, cause: io.EOF},
		"the peer is no broker":         {cfg: rabbitmq.Config{URL: brokerAt(t, talker.Addr().String())}, want: transport.KindUnavailable},
		"a wrong password":              {cfg: rabbitmq.Config{URL: with(func(u *url.URL) { u.User = url.UserPassword("guest", "wrong") })}, want: transport.KindRefused, code: 403},
		"no such virtual host":          {cfg: rabbitmq.Config{URL: with(func(u *url.URL) { u.Path = "/lc.rmq.none" })}, want: transport.KindRefused, code: 530},
		"no certificate to log in with": {cfg: rabbitmq.Config{URL: with(func(u *url.URL) { u.RawQuery = "auth_mechanism=external" })}, want: transport.KindRefused},
		"TLS where there is none":       {cfg: rabbitmq.Config{URL: with(func(u *url.URL) { u.Scheme = "amqps" })}, want: transport.KindRefused},
		"no credentials": {cfg: rabbitmq.Config{URL: brokerURL(), Credentials: func(context.Context) (string, string, error) { return "", "", hopeless }},
			want: transport.KindUnavailable, cause: hopeless},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			_, err := newTransport(t, c.cfg).Dial(t.Context())
			e, ok := errors.AsType[*transport.Error](err)
			if !ok || e.Kind != c.want || e.Code != c.code || c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%v (%+v), want kind %s, code %d, cause %v", err, e, c.want, c.code, c.cause)
			}
			t.Log(err)
		})
	}
}

// The credentials of a session that ends may have expired by the next one.
func TestCredentialsAreAskedForAtEachDial(t *testing.T) {
	noLeaks(t)
	u, err := url.Parse(brokerURL())
	if err != nil {
		t.Fatal("LASTCALL_TEST_AMQP_URL cannot be read")
	}
	password, _ := u.User.Password()
	user := u.User.Username()
	u.User = url.UserPassword("nobody", "expired")
	var asked atomic.Int32
	tr := newTransport(t, rabbitmq.Config{URL: u.String(), Credentials: func(context.Context) (string, string, error) {
		asked.Add(1)
		return user, password, nil
	}})
	for n := range int32(2) {
		end(t, dial(t, tr))
		if got := asked.Load(); got != n+1 {
			t.Errorf("asked %d times at dial %d", got, n+1)
		}
	}
}

func TestDialEndsInTime(t *testing.T) {
	noLeaks(t)
	silent := listen(t)
	over := make(chan struct{})
	serve(t, silent, func(net.Conn) { <-over })
	t.Cleanup(func() { close(over) })
	secure := brokerAt(t, silent.Addr().String())
	secure = "amqps" + strings.TrimPrefix(secure, "amqp")
	stuck := func(context.Context) (string, string, error) {
		<-over // whatever the context says
		return "", "", nil
	}
	cause := errors.New("that is long enough")
	for name, cfg := range map[string]rabbitmq.Config{
		"a silent peer":               {URL: brokerAt(t, silent.Addr().String())},
		"a peer silent in TLS":        {URL: secure},
		"credentials that never come": {URL: brokerURL(), Credentials: stuck},
		"a dial timeout of its own":   {URL: brokerAt(t, silent.Addr().String()), DialTimeout: 50 * time.Millisecond},
	} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, cause)
		if cfg.DialTimeout != 0 {
			ctx = t.Context()
		}
		began := time.Now()
		_, err := newTransport(t, cfg).Dial(ctx)
		cancel()
		if took := time.Since(began); took > 2*time.Second || transport.KindOf(err) != transport.KindUnavailable {
			t.Errorf("%s: %v after %s", name, err, took)
		}
		if cfg.DialTimeout == 0 && !errors.Is(err, cause) {
			t.Errorf("%s: %v does not tell the context's cause", name, err)
		}
	}
}

// TLS is done here and not by amqp091, so that frames are seen on amqps too.
func TestTLS(t *testing.T) {
	noLeaks(t)
	a := newAdmin(t)
	certificate, roots := selfSigned(t, "broker.test")
	inner := listen(t)
	serve(t, tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{certificate}}), func(c net.Conn) {
		b, err := net.Dial("tcp", brokerAddr(t))
		if err != nil {
			return
		}
		var back sync.WaitGroup
		back.Go(func() {
			_, _ = io.Copy(c, b)
			_ = c.Close()
		})
		_, _ = io.Copy(b, c)
		_ = b.Close()
		back.Wait()
	})
	u := "amqps" + strings.TrimPrefix(brokerAt(t, inner.Addr().String()), "amqp")

	_, err := newTransport(t, rabbitmq.Config{URL: u}).Dial(t.Context())
	if transport.KindOf(err) != transport.KindRefused {
		t.Errorf("with an unknown issuer: %v, want it refused", err)
	}

	config := &tls.Config{RootCAs: roots}
	s := dial(t, newTransport(t, rabbitmq.Config{URL: u + "?server_name_indication=broker.test", TLS: config}))
	if config.ServerName != "" {
		t.Error("the caller's TLS configuration was changed")
	}
	q := a.queue(t, transporttest.QueueOptions{})
	a.publish(t, q, numbered(100)...)
	r := consume(t, s, transport.Subscription{Queue: q, Prefetch: 100}, &tape{})
	r.awaitDeliveries(t, 100)
	r.settle(transport.Ack, descending(100, 1)...)
	r.awaitWritten(t, 100)
	r.stream.Cancel()
	r.awaitObserved(t, transport.ObservedCancelOK)
	if err := r.stream.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []transport.ObservationKind{transport.ObservedCancelWritten, transport.ObservedCancelOK, transport.ObservedCloseWritten, transport.ObservedCloseOK}
	if diff := cmp.Diff(want, r.kinds()); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	if left := a.drain(t, q, 0); len(left) > 0 {
		t.Errorf("%d messages are left", len(left))
	}
}

func selfSigned(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
