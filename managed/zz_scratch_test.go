package managed_test

import (
	"testing"
	"time"

	"github.com/lastcall-go/lastcall/internal/rabbittest"
)

func TestScratchPublish(t *testing.T) {
	b := rabbittest.New(t)
	q := b.Queue(rabbittest.Classic)
	begin := time.Now()
	b.Publish(q, ids(10000)...)
	t.Log("publish", time.Since(begin))
	begin = time.Now()
	got := make(chan string, 10000)
	b.Consume(q, func(id string, _ bool) { got <- id })
	for range 10000 {
		<-got
	}
	t.Log("consume", time.Since(begin))
}
