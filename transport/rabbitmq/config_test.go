package rabbitmq_test

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	const good = "amqp://guest:guest@127.0.0.1:5672/"
	for name, cfg := range map[string]rabbitmq.Config{
		"no URL":                     {},
		"no scheme":                  {URL: "127.0.0.1:5672"},
		"another scheme":             {URL: "http://127.0.0.1/"},
		"a port that is none":        {URL: "amqp://127.0.0.1:99999/"},
		"a heartbeat of zero":        {URL: good + "?heartbeat=0"},
		"a heartbeat that is none":   {URL: good + "?heartbeat=often"},
		"a timeout of zero":          {URL: good + "?connection_timeout=0"},
		"an unknown parameter":       {URL: good + "?hartbeat=5"},
		"a TLS file":                 {URL: good + "?cacertfile=/ca.pem"},
		"an unknown login":           {URL: good + "?auth_mechanism=amqplain"},
		"a negative heartbeat":       {URL: good, Heartbeat: -time.Second},
		"half a second":              {URL: good, Heartbeat: 500 * time.Millisecond},
		"a second and a half":        {URL: good, Heartbeat: 1500 * time.Millisecond},
		"a heartbeat of a day":       {URL: good, Heartbeat: 24 * time.Hour},
		"a negative timeout":         {URL: good, DialTimeout: -1},
		"a name that does not fit":   {URL: good, ConnectionName: strings.Repeat("n", 256)},
		"TLS that would not be used": {URL: good, TLS: &tls.Config{}},
	} {
		if _, err := rabbitmq.New(cfg); transport.KindOf(err) != transport.KindInvalid {
			t.Errorf("%s: %v, want an error of kind invalid", name, err)
		}
	}
	for name, cfg := range map[string]rabbitmq.Config{
		"plain":      {URL: good, Heartbeat: 2 * time.Second, DialTimeout: time.Second, ConnectionName: strings.Repeat("n", 255)},
		"parameters": {URL: "amqps://127.0.0.1/v?heartbeat=5&connection_timeout=100&channel_max=7&auth_mechanism=external&server_name_indication=b"},
		"escaped":    {URL: "amqp://us%40er:p%2F%3F%23%40%25@[::1]:5673/a%2Fb"},
	} {
		if _, err := rabbitmq.New(cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A password that was not escaped cuts the URL anywhere. Wherever that is, no piece of it is shown.
func TestErrorsShowNoPassword(t *testing.T) {
	const left, right = "s3cretLeft", "s3cretRight"
	for _, between := range []string{"@", ":", "/", "?", "#", "%", "%zz", " ", "[", "]", "\x00", "@/?#", "12345/", "?heartbeat="} {
		for _, raw := range []string{
			"amqp://user:" + left + between + right + "@127.0.0.1:1/v",
			"amqp://user:1" + between + right + left + "@127.0.0.1:1/v", // what comes first may pass for a port
			"amqp://user:" + left + between + right + "@127.0.0.1:none/v",
			"amqp://user:" + url.QueryEscape(left+between+right) + "@127.0.0.1:1/v",
		} {
			tr, err := rabbitmq.New(rabbitmq.Config{URL: raw, DialTimeout: time.Second})
			if err == nil {
				_, err = tr.Dial(t.Context())
			}
			if err == nil {
				t.Fatalf("%q was dialled", raw)
			}
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err), fmt.Sprintf("%v %+v %#v", tr, tr, tr)} {
				if strings.Contains(text, left) || strings.Contains(text, right) {
					t.Errorf("%q shows the password: %s", raw, text)
				}
			}
		}
	}
}
