package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"harborgate/internal/mockllm"
)

// runModel serves the mock model API until ctx ends.
func runModel(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("harbor-sim model", flag.ContinueOnError)
	flags.SetOutput(errs)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	key := flags.String("key", "", "key that requests must carry; any is accepted unless given")
	script := flags.String("script", "", "YAML `file` that says how requests are answered")
	log := flags.String("log", "", "`file` that gets one line of JSON for each request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	m := &model{mock: mockllm.New(), refuses: mockllm.New(), key: *key, log: io.Discard}
	m.refuses.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Status: http.StatusUnauthorized} })
	if err := m.follow(*script); err != nil {
		return err
	}
	if *log != "" {
		f, err := os.OpenFile(*log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("open log: %w", err)
		}
		defer f.Close()
		m.log = f
	}
	defer m.answering.Lock() // the log is whole when the last answer is
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	return serve(ctx, l, "http://"+l.Addr().String(), m, out)
}

// serve answers by h until ctx ends. address is where it says that it listens.
func serve(ctx context.Context, l net.Listener, address string, h http.Handler, out io.Writer) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if _, err := fmt.Fprintf(out, "listening %s\n", address); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// model is the mock model API with a key and a log.
type model struct {
	mock    *mockllm.Server
	refuses *mockllm.Server // answers who has not got the key
	key     string

	answering sync.RWMutex // held for reading by each request

	mu  sync.Mutex
	log io.Writer
}

// follow takes the script at path, if any.
func (m *model) follow(path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read script: %w", err)
	}
	steps, forever, err := readScript(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	m.mock.Script(steps...)
	if forever != nil {
		m.mock.Always(func(mockllm.Request) mockllm.Step { return *forever })
	}
	return nil
}

// served is one line of the log: what a request asked for, and what it was given.
type served struct {
	Time       time.Time    `json:"time"`
	Method     string       `json:"method"`
	Path       string       `json:"path"`
	Query      string       `json:"query,omitempty"`
	Model      string       `json:"model,omitempty"`
	Stream     bool         `json:"stream"`
	Status     int          `json:"status"`
	Complete   bool         `json:"complete"` // all was sent
	Usage      usage        `json:"usage"`
	BytesIn    int          `json:"bytes_in"`
	BytesOut   int64        `json:"bytes_out"`
	Sum        string       `json:"sha256"` // of those bytes
	Credential []credential `json:"credential"`
}

// credential is a header that carried one. Hash is the beginning of its SHA-256.
type credential struct {
	Header string `json:"header"`
	Hash   string `json:"sha256"`
	value  string
}

// credentials are those that a request carries, in the places that providers have.
func credentials(h http.Header) []credential {
	out := []credential{}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		for _, v := range h[name] {
			v = strings.TrimPrefix(v, "Bearer ")
			sum := sha256.Sum256([]byte(v))
			out = append(out, credential{Header: strings.ToLower(name), Hash: hex.EncodeToString(sum[:4]), value: v})
		}
	}
	return out
}

// ServeHTTP answers one request and writes its line.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !m.answering.TryRLock() {
		return // it ends
	}
	defer m.answering.RUnlock()
	given := credentials(r.Header)
	mock := m.mock
	if m.key != "" && (len(given) != 1 || given[0].value != m.key) {
		mock = m.refuses
	}
	c := &counter{ResponseWriter: w, sum: sha256.New()}
	a := mock.Serve(c, r)
	mock.Forget()
	line, err := json.Marshal(served{
		Time: time.Now().UTC(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Model: a.Model, Stream: a.Stream,
		Status: c.status, Complete: a.Complete, Usage: usage(a.Usage), BytesIn: len(a.Request.Body), BytesOut: c.bytes, Sum: hex.EncodeToString(c.sum.Sum(nil)), Credential: given,
	})
	if err != nil {
		panic(err) // strings and numbers always have a form in JSON
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = m.log.Write(append(line, '\n')) // a test that misses the line says so
}

// counter counts what is sent through it.
type counter struct {
	http.ResponseWriter
	status int // 0 when nothing was answered
	bytes  int64
	sum    hash.Hash
}

func (c *counter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	c.sum.Write(p[:n]) // never fails
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
