package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs harbor-sim model and returns its address, and what ends it.
func start(t *testing.T, args ...string) (address string, stop func()) {
	t.Helper()
	return startAs(t, "model", args...)
}

// startAs runs a simulator.
func startAs(t *testing.T, simulator string, args ...string) (address string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{simulator}, args...), out, &errs)
		out.Close()
	}()
	text, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("it ended with %d: %s", <-code, errs.String())
	}
	return strings.TrimSpace(strings.TrimPrefix(text, "listening ")), func() {
		t.Helper()
		cancel()
		if got := <-code; got != 0 {
			t.Errorf("exit code %d: %s", got, errs.String())
		}
	}
}

// post sends a request and returns status and body; the error is that of reading it.
func post(t *testing.T, client *http.Client, url, key, body string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestModelFollowsItsScriptAndLogsWhatItServed(t *testing.T) {
	t.Parallel()
	script := write(t, "script.yaml", `
- {command: "touch /x", usage: {input: 11, cache_read: 2, output: 3}}
- {status: 529, times: 2}
- {text: one, words: 9, cut_after: 4}
- {echo: true, forever: true}
`)
	log := filepath.Join(t.TempDir(), "log.jsonl")
	address, stop := start(t, "--script", script, "--log", log, "--key", "the-key")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := `{"model":"m","stream":true,"messages":[]}`
	var statuses []int
	var last string
	for _, key := range []string{"wrong", "the-key", "the-key", "the-key", "the-key", "the-key"} {
		status, body, err := post(t, client, address+"/v1/messages", key, ask)
		statuses, last = append(statuses, status), body
		if cut := len(statuses) == 5; (err != nil) != cut {
			t.Errorf("request %d: %v", len(statuses), err)
		}
	}
	stop()
	if want := []int{401, 200, 529, 529, 200, 200}; !slices.Equal(statuses, want) {
		t.Errorf("statuses %v, want %v", statuses, want)
	}
	if !strings.Contains(last, "/v1/messages") {
		t.Errorf("no echo: %s", last)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("the-key")) {
		t.Error("the log holds the key")
	}
	var lines []served
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var l served
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 6 {
		t.Fatalf("%d lines", len(lines))
	}
	if l := lines[1]; l.Usage != (usage{Input: 11, CacheRead: 2, Output: 3}) || !l.Complete || l.Model != "m" || !l.Stream || l.BytesOut == 0 {
		t.Errorf("%+v", l)
	}
	if l := lines[4]; l.Complete || l.Status != 200 {
		t.Errorf("cut, and logged as %+v", l)
	}
	if c := lines[0].Credential; len(c) != 1 || c[0].Header != "x-api-key" || c[0].Hash == lines[1].Credential[0].Hash {
		t.Errorf("%+v", c)
	}
}

func TestMistakesAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- {txt: x}":                          "txt",
		"- {times: -1}":                       "entry 1: times",
		"- {times: 1000000}":                  "entry 1: times",
		"- {echo: true, forever: true}\n- {}": "entry 1: forever",
	} {
		var errs bytes.Buffer
		code := run(t.Context(), []string{"model", "--script", write(t, "s.yaml", text)}, io.Discard, &errs)
		if code != 1 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %d %s", text, code, errs.String())
		}
	}
	for _, args := range [][]string{nil, {"daytona"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: %d", args, code)
		}
	}
}
