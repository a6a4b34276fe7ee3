package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// measured is what a client prints. Times are in milliseconds.
type measured struct {
	Requests int     `json:"requests"`  // with those of the warm-up
	Rate     float64 `json:"rate"`      // requests a second
	P50      float64 `json:"p50"`       // of a request, or of an event under way
	MBPerSec float64 `json:"mb_per_s"`  // of long streams
	Problems int     `json:"problems"`  // answers that were not what they should be
	Sample   string  `json:"a_problem"` // one of them
}

// client sends requests of one kind over a number of connections.
type client struct {
	url, token, kind string
	body             []byte
	tr               *http.Transport
	problems         atomic.Int64
	sample           atomic.Pointer[string]
}

// runClient measures one way for a while and prints what came of it. The kind
// "hold" opens streams, prints one line and keeps them until its input ends.
func runClient(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	c := &client{}
	flags.StringVar(&c.url, "url", "", "of the messages")
	flags.StringVar(&c.token, "token", "", "")
	flags.StringVar(&c.kind, "kind", wholeAnswer, "")
	n := flags.Int("n", 1, "connections")
	d := flags.Duration("for", time.Second, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.body = asks(c.kind)
	c.tr = &http.Transport{MaxIdleConns: *n, MaxIdleConnsPerHost: *n, DisableCompression: true}
	defer c.tr.CloseIdleConnections()
	ways := map[string]func(context.Context, int, time.Duration) (measured, error){
		wholeAnswer: c.requests, fewEvents: c.events, heldStream: c.hold, longStream: c.long,
	}
	m, err := ways[c.kind](ctx, *n, *d)
	if err != nil {
		return err
	}
	m.Problems = int(c.problems.Load())
	if s := c.sample.Load(); s != nil {
		m.Sample = *s
	}
	return json.NewEncoder(os.Stdout).Encode(m)
}

func (c *client) problem(format string, args ...any) {
	c.problems.Add(1)
	s := fmt.Sprintf(format, args...)
	c.sample.Store(&s)
}

func (c *client) send(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.Header["X-Api-Key"] = []string{c.token}
	req.Header["Content-Type"] = []string{"application/json"}
	return c.tr.RoundTrip(req)
}

// requests sends one after the other on each connection.
func (c *client) requests(ctx context.Context, n int, d time.Duration) (measured, error) {
	const warmUp = 300 * time.Millisecond
	begin := time.Now().Add(warmUp)
	end := begin.Add(d)
	took, all := make([][]float64, n), make([]int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for now := time.Now(); now.Before(end); {
				c.one(ctx)
				then := time.Now()
				if now.After(begin) {
					took[i] = append(took[i], ms(then.Sub(now)))
				}
				all[i]++
				now = then
			}
		})
	}
	wg.Wait()
	times := slices.Concat(took...)
	m := measured{Rate: float64(len(times)) / d.Seconds(), P50: median(times)}
	for _, k := range all {
		m.Requests += k
	}
	return m, nil
}

func (c *client) one(ctx context.Context) {
	resp, err := c.send(ctx)
	if err != nil {
		c.problem("%v", err)
		return
	}
	size, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	const shortest = 500
	if err != nil || resp.StatusCode != http.StatusOK || size < shortest {
		c.problem("status %d, %d bytes, %v", resp.StatusCode, size, err)
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// events opens n streams at once and looks how long each event was under way.
func (c *client) events(ctx context.Context, n int, _ time.Duration) (measured, error) {
	took := make([][]float64, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			resp, err := c.send(ctx)
			if err != nil {
				c.problem("%v", err)
				return
			}
			defer resp.Body.Close()
			took[i] = delays(resp.Body)
			if len(took[i]) != streamEvents {
				c.problem("status %d, %d events", resp.StatusCode, len(took[i]))
			}
		})
		<-time.After(streamPause / time.Duration(n)) // so that events do not come in bursts
	}
	wg.Wait()
	return measured{P50: median(slices.Concat(took...)), Requests: n}, nil
}

// delays reads a stream whose events say when they were sent.
func delays(body io.Reader) []float64 {
	var out []float64
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return out
		}
		_, at, ok := bytes.Cut(line, []byte(`"at":`))
		if !ok {
			continue
		}
		sent, err := strconv.ParseInt(string(bytes.TrimRight(at, "}\n")), 10, 64)
		if err != nil {
			return out
		}
		out = append(out, ms(time.Since(time.Unix(0, sent))))
	}
}

// hold opens n streams and keeps them.
func (c *client) hold(ctx context.Context, n int, _ time.Duration) (measured, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opened := 0
	for range n {
		resp, err := c.send(ctx)
		if err != nil {
			return measured{}, err
		}
		defer resp.Body.Close()
		first := make([]byte, 1)
		if _, err := io.ReadFull(resp.Body, first); err != nil || resp.StatusCode != http.StatusOK {
			return measured{}, fmt.Errorf("stream %d of %d: status %d: %w", opened+1, n, resp.StatusCode, errors.Join(err, errHeld))
		}
		opened++
	}
	fmt.Println("open")
	_, err := io.Copy(io.Discard, os.Stdin)
	return measured{Requests: opened}, err
}

var errHeld = errors.New("it does not open")

// long reads long streams one after the other.
func (c *client) long(ctx context.Context, _ int, d time.Duration) (measured, error) {
	var total int64
	begin := time.Now()
	for time.Since(begin) < d {
		resp, err := c.send(ctx)
		if err != nil {
			return measured{}, err
		}
		size, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || size < longBytes {
			c.problem("status %d, %d bytes, %v", resp.StatusCode, size, err)
		}
		total += size
	}
	return measured{MBPerSec: float64(total) / 1e6 / time.Since(begin).Seconds()}, nil
}
