package managed

import (
	"context"
	"encoding/json"
)

// JSON adapts a func that takes the decoded body. A body that does not decode is rejected with a *MalformedError and counted
// as malformed; f is not called then.
func JSON[T any](f func(ctx context.Context, body T, d *Delivery) Outcome) Handler {
	return func(ctx context.Context, d *Delivery) Outcome {
		var body T
		if err := json.Unmarshal(d.Body, &body); err != nil {
			return Reject(&MalformedError{Err: err})
		}
		return f(ctx, body, d)
	}
}
