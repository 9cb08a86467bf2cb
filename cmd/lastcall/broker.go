package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/lastcall-go/lastcall/config"
	"github.com/lastcall-go/lastcall/managed"
	"github.com/lastcall-go/lastcall/transport"
	"github.com/lastcall-go/lastcall/transport/memory"
	"github.com/lastcall-go/lastcall/transport/rabbitmq"
)

// dialer makes the transport that the file names.
func dialer(file *config.File, service managed.Service) (transport.Transport, error) {
	if file.Broker.Kind == config.Memory {
		b := memory.New(memory.Config{})
		for _, s := range file.Subscriptions {
			if s.Declare == "passive" {
				if err := b.Declare(s.Queue, memory.Options{}); err != nil {
					return nil, err
				}
			}
		}
		return b, nil
	}
	address, err := file.Broker.Address()
	if err != nil {
		return nil, err
	}
	cfg := rabbitmq.Config{URL: string(address), ConnectionName: connectionName(service)}
	if file.Broker.URLFile != "" {
		cfg.Credentials = func(context.Context) (string, string, error) { return credentials(file.Broker) }
	}
	return rabbitmq.New(cfg)
}

func connectionName(service managed.Service) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := service.Name
	if name == "" {
		name = "lastcall"
	}
	return fmt.Sprintf("%s@%s#%d", name, host, os.Getpid())
}

// credentials reads the file with the URL again, so that a rotated password is found at the next dial.
func credentials(b config.Broker) (user, password string, err error) {
	address, err := b.Address()
	if err != nil {
		return "", "", err
	}
	u, err := url.Parse(string(address))
	if err != nil {
		return "", "", errors.New("url_file does not hold a valid URL")
	}
	password, _ = u.User.Password()
	return u.User.Username(), password, nil
}
