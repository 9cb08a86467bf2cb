package managed

import (
	"context"
	"errors"
	"testing"
)

func TestAwait(t *testing.T) {
	errOver := errors.New("over")
	ended, end := context.WithCancelCause(context.Background())
	end(errOver)
	there, never := make(chan struct{}), make(chan struct{})
	close(there)
	for range 100 { // a select between the two would choose either
		if err := await(ended, there); err != nil {
			t.Fatalf("an event that was there: %v", err)
		}
	}
	if err := await(ended, never); err != errOver {
		t.Errorf("no event: %v, want the cause", err)
	}
}
