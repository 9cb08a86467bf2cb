package rabbitmq

import (
	"fmt"
	"math"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Keys that RabbitMQ gives a meaning to.
const (
	queueType     = amqp.QueueTypeArg // "x-queue-type"
	deliveryCount = "x-delivery-count"
)

// toTable copies arguments into AMQP's types. An int goes as 64 bits, where amqp091 would cut it to 32.
func toTable(in map[string]any) (amqp.Table, error) {
	out := make(amqp.Table, len(in)+1)
	for key, value := range in {
		v, err := toField(value)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		out[key] = v
	}
	return out, out.Validate()
}

func toField(value any) (any, error) {
	switch v := value.(type) {
	case int:
		return int64(v), nil
	case uint:
		return toField(uint64(v))
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large", v)
		}
		return int64(v), nil
	case map[string]any:
		return toTable(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			f, err := toField(v[i])
			if err != nil {
				return nil, err
			}
			out[i] = f
		}
		return out, nil
	}
	return value, nil
}

// fromTable turns what amqp091 decoded into plain maps and slices, in place: nobody else holds it.
func fromTable(in amqp.Table) map[string]any {
	for key, value := range in {
		switch v := value.(type) {
		case amqp.Table, []any, amqp.Decimal:
			in[key] = fromField(v)
		}
	}
	return in
}

func fromField(value any) any {
	switch v := value.(type) {
	case amqp.Table:
		return fromTable(v)
	case []any:
		for i := range v {
			v[i] = fromField(v[i])
		}
		return v
	case amqp.Decimal:
		return float64(v.Value) / math.Pow10(int(v.Scale))
	}
	return value
}

// toCount reads a header that holds a count, of whatever integer type.
func toCount(value any) uint64 {
	var n int64
	switch v := value.(type) {
	case int64:
		n = v
	case int32:
		n = int64(v)
	case int16:
		n = int64(v)
	case int8:
		n = int64(v)
	case uint32:
		n = int64(v)
	case uint16:
		n = int64(v)
	case byte:
		n = int64(v)
	}
	return uint64(max(n, 0))
}
