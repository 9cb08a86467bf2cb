package rabbitmq

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestToTable(t *testing.T) {
	got, err := toTable(map[string]any{"int": 1 << 40, "uint": uint(7), "list": []any{1, "a"}, "map": map[string]any{"n": 2}, "flag": true})
	want := amqp.Table{"int": int64(1 << 40), "uint": int64(7), "list": []any{int64(1), "a"}, "map": amqp.Table{"n": int64(2)}, "flag": true}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, bad := range map[string]any{"no type of AMQP's": struct{}{}, "too large": uint64(math.MaxUint64), "deep down": map[string]any{"x": []any{make(chan int)}}} {
		if _, err := toTable(map[string]any{"x": bad}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// What users see has no type of amqp091's in it, at any depth.
func TestFromTable(t *testing.T) {
	got := fromTable(amqp.Table{
		"x-death": []any{amqp.Table{"count": int64(2), "routing-keys": []any{"k"}}},
		"nested":  amqp.Table{"deep": amqp.Table{"price": amqp.Decimal{Scale: 2, Value: 1234}}},
		"plain":   "text",
	})
	want := map[string]any{
		"x-death": []any{map[string]any{"count": int64(2), "routing-keys": []any{"k"}}},
		"nested":  map[string]any{"deep": map[string]any{"price": 12.34}},
		"plain":   "text",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestToCount(t *testing.T) {
	for _, v := range []any{int64(3), int32(3), int16(3), int8(3), uint32(3), uint16(3), byte(3)} {
		if got := toCount(v); got != 3 {
			t.Errorf("%T: %d", v, got)
		}
	}
	for _, v := range []any{int64(-1), "3", nil, 3.0} {
		if got := toCount(v); got != 0 {
			t.Errorf("%v: %d", v, got)
		}
	}
}
