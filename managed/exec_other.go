//go:build !unix

package managed

import (
	"context"
	"log/slog"
	"time"
)

const execSupported = false

type child struct {
	cfg     ExecConfig
	body    []byte
	env     []string
	killAt  func(cause error) time.Time
	revoked <-chan struct{}
	log     *slog.Logger
}

func (*child) run(context.Context) childEnd { return childEnd{err: ErrExecUnsupported} }
