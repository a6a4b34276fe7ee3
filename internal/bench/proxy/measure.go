package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

const (
	direct = iota
	nginx
	ours
)

// all takes every measurement.
func (s *stage) all(ctx context.Context, rounds int) ([]figure, error) {
	var figures []figure
	for _, part := range []func(context.Context, int) ([]figure, error){s.memory, s.rate, s.latency, s.streams, s.exposed} {
		f, err := part(ctx, rounds)
		figures = append(figures, f...)
		if err != nil {
			return figures, err
		}
	}
	return figures, nil
}

const turn = 1200 * time.Millisecond

// rate compares requests a second and what each costs.
func (s *stage) rate(ctx context.Context, rounds int) ([]figure, error) {
	const connections = 16
	var ratios, costs, theirs, rates []float64
	for range rounds {
		var rate, cost [3]float64
		for i, w := range s.ways {
			before, err := cpu(w.pids)
			if err != nil {
				return nil, err
			}
			m, err := measure(ctx, w, wholeAnswer, connections, turn)
			if err != nil {
				return nil, err
			}
			after, err := cpu(w.pids)
			if err != nil {
				return nil, err
			}
			rate[i], cost[i] = m.Rate, (after-before)/float64(m.Requests)
		}
		ratios, rates = append(ratios, rate[ours]/rate[nginx]), append(rates, rate[nginx])
		costs, theirs = append(costs, cost[ours]/cost[nginx]), append(theirs, cost[nginx]*1000)
	}
	return []figure{
		{"requests/s, 16 connections, 8 KiB, of nginx's", median(ratios), 0.5, false, "×", fmt.Sprintf("%.0f/s", median(rates))},
		{"CPU of a request, of nginx's", median(costs), 3.2, true, "×", fmt.Sprintf("%.0f µs", median(theirs))},
	}, nil
}

// latency compares what one request at a time waits longer.
func (s *stage) latency(ctx context.Context, rounds int) ([]figure, error) {
	added, err := s.added(ctx, rounds, s.ways, wholeAnswer, 1)
	if err != nil {
		return nil, err
	}
	return []figure{{"added latency, one connection, p50", added[ours], 0.40, true, "ms", fmt.Sprintf("+%.3f ms", added[nginx])}}, nil
}

// added returns for each way how much more its p50 is than that of the first.
func (s *stage) added(ctx context.Context, rounds int, ways []way, kind string, n int) ([]float64, error) {
	more := make([][]float64, len(ways))
	for range rounds {
		var base float64
		for i, w := range ways {
			m, err := measure(ctx, w, kind, n, turn)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				base = m.P50
			}
			more[i] = append(more[i], m.P50-base)
		}
	}
	out := make([]float64, len(ways))
	for i := range more {
		out[i] = median(more[i])
	}
	return out, nil
}

// streams compares how long events are under way.
func (s *stage) streams(ctx context.Context, rounds int) ([]figure, error) {
	const open = 50
	added, err := s.added(ctx, rounds, s.ways, fewEvents, open)
	if err != nil {
		return nil, err
	}
	return []figure{{"added delay of an event, 50 streams, p50", added[ours], added[nginx] + 0.15, true, "ms", fmt.Sprintf("+%.3f ms", added[nginx])}}, nil
}

// memory weighs both, idle and with a thousand streams open.
func (s *stage) memory(ctx context.Context, _ int) ([]figure, error) {
	const open = 1000
	var idle, each [3]float64
	for _, i := range []int{nginx, ours} {
		w := s.ways[i]
		if _, err := w.holding(ctx, 1); err != nil { // what the first request makes is not counted as a stream's
			return nil, err
		}
		before, err := memory(w.pids)
		if err != nil {
			return nil, err
		}
		full, err := w.holding(ctx, open)
		if err != nil {
			return nil, err
		}
		idle[i], each[i] = before/1024, (full-before)/open
	}
	return []figure{
		{"memory, idle", idle[ours], 25, true, "MiB", fmt.Sprintf("%.0f MiB", idle[nginx])},
		{"memory of an open stream, 1,000 of them", each[ours], 80, true, "KiB", fmt.Sprintf("%.0f KiB", each[nginx])},
	}, nil
}

// holding is the memory of a way while n streams are open, in KiB.
func (w way) holding(ctx context.Context, n int) (float64, error) {
	c, err := start(ctx, w.args(heldStream, n, 0)...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", w.name, err)
	}
	held, err := memory(w.pids)
	if err != nil {
		return 0, err
	}
	if err := c.in.Close(); err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, c.out)
	return held, c.cmd.Wait()
}
