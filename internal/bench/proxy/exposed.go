package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"harborgate/authproxy"
	"harborgate/providers"
	"harborgate/providers/docker"
)

const image = "debian:bookworm-slim"

// exposed measures from within a sandbox without a network, through Expose and the
// proxy in this process.
func (s *stage) exposed(ctx context.Context, rounds int) (figures []figure, err error) {
	p, err := docker.New(docker.Options{HelperDir: s.bin, CacheDir: filepath.Join(s.work, "cache")})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	sandbox, err := p.Create(ctx, providers.Spec{
		Name: providers.Name("bench-proxy", s.work), Source: providers.Source{Image: image}, Network: providers.Network{Mode: providers.NetworkNone},
		Labels: providers.Labels{Owner: "bench", Host: "bench", Expires: time.Now().Add(time.Hour)},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sandbox.Destroy(context.WithoutCancel(ctx))) }()
	if err := bring(ctx, sandbox); err != nil {
		return nil, err
	}
	proxy, token, err := open(ctx, filepath.Join(s.work, "exposed"), "http://"+s.mock.words[0])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	return s.inside(ctx, sandbox, proxy, token, rounds)
}

// bring puts this program into the sandbox.
func bring(ctx context.Context, s providers.Sandbox) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	if err := t.WriteHeader(&tar.Header{Name: "client", Mode: 0o755, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := t.Write(text); err != nil {
		return err
	}
	return errors.Join(t.Close(), s.Upload(ctx, &b, "/bench"))
}

func (s *stage) inside(ctx context.Context, sandbox providers.Sandbox, proxy *authproxy.Proxy, token string, rounds int) ([]figure, error) {
	url, closer, err := sandbox.Expose(ctx, proxy.Handle("bench"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = closer() }()
	w := way{name: "sandbox", base: url + "/anthropic/v1/messages", token: token}
	from := func(kind string, n int) (measured, error) {
		var out, errs bytes.Buffer
		st, err := sandbox.Exec(ctx, providers.Command{
			Args: append([]string{"/bench/client"}, w.args(kind, n, turn)...), Stdout: &out, Stderr: &errs,
		})
		if err != nil || !st.OK() {
			return measured{}, fmt.Errorf("client in the sandbox: %v: %w: %s", st, err, errs.String())
		}
		return w.read(out.Bytes())
	}
	var latency, events, speed []float64
	for range rounds {
		for _, kind := range []string{wholeAnswer, fewEvents} {
			n := map[string]int{wholeAnswer: 1, fewEvents: 50}[kind]
			base, err := measure(ctx, s.ways[direct], kind, n, turn)
			if err != nil {
				return nil, err
			}
			m, err := from(kind, n)
			if err != nil {
				return nil, err
			}
			if kind == wholeAnswer {
				latency = append(latency, m.P50-base.P50)
			} else {
				events = append(events, m.P50-base.P50)
			}
		}
		m, err := from(longStream, 1)
		if err != nil {
			return nil, err
		}
		speed = append(speed, m.MBPerSec)
	}
	return []figure{
		{"through Expose: added latency, p50", median(latency), 0.6, true, "ms", "–"},
		{"through Expose: added delay of an event, p50", median(events), 0.7, true, "ms", "–"},
		{"through Expose: throughput of a stream", median(speed), 150, false, "MB/s", "–"},
	}, nil
}
