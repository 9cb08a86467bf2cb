package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// scenario is one row of the table for each contender.
type scenario struct {
	Queue       string `json:"queue"` // classic or quorum
	Prefetch    int    `json:"prefetch"`
	Concurrency int    `json:"concurrency"`
	Body        int    `json:"body_bytes"`
	Stuck       bool   `json:"one_handler_stuck"`
}

func (s scenario) String() string {
	text := fmt.Sprintf("%s, prefetch %d, concurrency %d, %d B", s.Queue, s.Prefetch, s.Concurrency, s.Body)
	if s.Stuck {
		text += ", one handler stuck for 2 s"
	}
	return text
}

// sample is one run of one contender.
type sample struct {
	Rate   float64 // messages/s
	CPU    float64 // client CPU per message, us
	Allocs float64 // per message
}

// result is a contender's median in a scenario.
type result struct {
	Scenario  scenario `json:"scenario"`
	Contender string   `json:"contender"`
	Rate      float64  `json:"messages_per_second"`
	CPU       float64  `json:"client_cpu_us_per_message"`
	Allocs    float64  `json:"allocations_per_message"`
	Rounds    int      `json:"rounds"`
}

func main() {
	url := flag.String("url", cmp.Or(os.Getenv("LASTCALL_TEST_AMQP_URL"), "amqp://guest:guest@127.0.0.1:5672/"), "broker")
	rounds := flag.Int("rounds", 5, "rounds, each with every contender in turn")
	messages := flag.Int("messages", 60000, "messages a run")
	full := flag.Bool("full", false, "every combination of queue, prefetch, concurrency and body; else the ones that matter")
	out := flag.String("json", "", "write the figures as JSON to this file")
	only := flag.String("only", "", "only scenarios whose text contains this")
	flag.Parse()
	var results []result
	for _, s := range scenarios(*full) {
		if !strings.Contains(s.String(), *only) {
			continue
		}
		part, err := measure(*url, s, *rounds, *messages)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		print(s, part)
		results = append(results, part...)
	}
	if *out == "" {
		return
	}
	raw, err := json.MarshalIndent(map[string]any{
		"go": runtime.Version(), "cpus": runtime.NumCPU(), "at": time.Now().UTC(), "results": results}, "", "  ")
	if err == nil {
		err = os.WriteFile(*out, append(raw, '\n'), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func scenarios(full bool) (out []scenario) {
	if !full {
		return []scenario{
			{"classic", 256, 16, 128, false}, {"quorum", 256, 16, 128, false},
			{"classic", 256, 16, 128, true}, {"classic", 1024, 16, 128, false},
			{"classic", 256, 1, 128, false}, {"classic", 256, 16, 4096, false},
		}
	}
	for _, queue := range []string{"classic", "quorum"} {
		for _, prefetch := range []int{256, 1024} {
			for _, concurrency := range []int{1, 16} {
				for _, body := range []int{128, 4096} {
					out = append(out, scenario{queue, prefetch, concurrency, body, false})
				}
			}
		}
		out = append(out, scenario{queue, 256, 16, 128, true})
	}
	return out
}

// measure runs every contender in turn, rounds times, after one round that does not count.
func measure(url string, s scenario, rounds, messages int) ([]result, error) {
	samples := make(map[string][]sample)
	for round := range rounds + 1 {
		for _, c := range contenders {
			if s.Stuck && !c.concurrent {
				continue
			}
			one, err := run(url, s, c, messages)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", s, c.name, err)
			}
			if round > 0 {
				samples[c.name] = append(samples[c.name], one)
			}
		}
	}
	var out []result
	for _, c := range contenders {
		list := samples[c.name]
		if len(list) == 0 {
			continue
		}
		out = append(out, result{Scenario: s, Contender: c.name, Rounds: len(list),
			Rate:   median(list, func(x sample) float64 { return x.Rate }),
			CPU:    median(list, func(x sample) float64 { return x.CPU }),
			Allocs: median(list, func(x sample) float64 { return x.Allocs })})
	}
	return out, nil
}

func median(list []sample, of func(sample) float64) float64 {
	values := make([]float64, len(list))
	for i, x := range list {
		values[i] = of(x)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// run publishes, then lets one contender consume everything, and measures from its start to the last handler.
func run(url string, s scenario, c contender, messages int) (sample, error) {
	b, err := prepare(url, s, messages)
	if err != nil {
		return sample{}, err
	}
	defer b.close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w := newWork(messages, s.Stuck)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, begin := cpuTime(), time.Now()
	stop, err := c.start(ctx, url, b.queue, s, w.handle)
	if err != nil {
		return sample{}, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return sample{}, fmt.Errorf("%d of %d messages handled in two minutes", w.count.Load(), messages)
	}
	took, spent := time.Since(begin), cpuTime()-cpu
	runtime.ReadMemStats(&after)
	close(w.release)
	stop()
	n := float64(messages)
	return sample{Rate: n / took.Seconds(), CPU: float64(spent.Microseconds()) / n, Allocs: float64(after.Mallocs-before.Mallocs) / n}, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// print writes one scenario's part of the table, with ratios to the first contender of the bare client.
func print(s scenario, part []result) {
	fmt.Printf("\n%s\n", s)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "contender\tmsg/s\tLastcall is\tCPU us/msg\tallocs/msg\t")
	for _, r := range part {
		fmt.Fprintf(w, "%s\t%.0f\t%.2fx\t%.1f\t%.1f\t\n", r.Contender, r.Rate, part[0].Rate/r.Rate, r.CPU, r.Allocs)
	}
	_ = w.Flush()
}
