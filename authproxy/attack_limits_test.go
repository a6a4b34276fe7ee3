package authproxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// The attacks of docs/auth-proxy.md from the fifteenth on: on money, limits, logs and
// keys.

func TestAttack15Row04BudgetHoldsUnderParallelRequests(t *testing.T) {
	t.Parallel()
	r := start(t)
	// A request may come to 15 tokens in and 100 out: 0.001015 dollars, or a little more.
	r.token, _ = r.mint(GrantSpec{Trial: "poor", Trials: Sum{Money: usd(t, "0.00525")}})
	const k, n = 5, 64
	hold, arrived := make(chan struct{}), make(chan struct{}, n)
	r.mock.Always(func(mockllm.Request) mockllm.Step {
		arrived <- struct{}{}
		return mockllm.Step{Hold: hold, Usage: &mockllm.Usage{Input: 15, Output: 100}}
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range n {
		wg.Go(func() {
			a := r.post(messages, ask)
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	for range k {
		<-arrived
	}
	close(hold) // the others wait for what these leave, which is nothing
	wg.Wait()
	if statuses[200] != k || statuses[402] != n-k || len(arrived) > 0 {
		t.Errorf("%v, and %d more arrived", statuses, len(arrived))
	}
}

// Open requests hold the most that they may come to; what they do not use is for
// those that wait.
func TestMoneyThatOpenRequestsHoldIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.token, _ = r.mint(GrantSpec{Trial: "poor", Trials: Sum{Money: usd(t, "0.0015")}}) // one, at worst
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Usage: &mockllm.Usage{Input: 5, Output: 1}} })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := r.post(messages, ask); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
}

// An agent is told to come again, not that all is over.
func TestMoneyHeldForTooLongAsksToComeAgain(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.Limits.MaxWait = 50 * time.Millisecond }))
	r.token, _ = r.mint(GrantSpec{Trial: "poor", Trials: Sum{Money: usd(t, "0.0015")}})
	hold, arrived := make(chan struct{}), make(chan struct{}, 1)
	r.mock.Always(func(mockllm.Request) mockllm.Step {
		arrived <- struct{}{}
		return mockllm.Step{Hold: hold}
	})
	var wg sync.WaitGroup
	wg.Go(func() { r.post(messages, ask) })
	<-arrived
	a := r.post(messages, ask)
	if a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "set aside for requests that are open") {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	close(hold)
	wg.Wait()
}

func TestAttack16Row01EarlyDisconnectIsBilled(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, f := range formats(true)[:3] {
		r.mock.Script(mockllm.Step{Text: strings.Repeat("word ", 40), Words: 200, CutAfter: 0, Pause: time.Millisecond})
		b, cancel := r.open(f.path, f.body)
		for range 5 {
			next(t, b)
		}
		cancel()
		rec := r.record(1)
		if rec.End != ClientGone || !rec.Guessed || rec.Cost == nil || rec.Usage.Output < 40 || rec.Usage.Prompt() == 0 {
			t.Errorf("%s: %+v", f.name, rec)
		}
	}
}

func TestAttack17HiddenUsageCostsTheReservation(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		for _, f := range formats(stream) {
			r := start(t)
			r.mock.Script(mockllm.Step{NoUsage: true})
			r.post(f.path, f.body)
			rec := r.record(1)
			if rec.Usage.Output != 100 || !rec.Guessed || *rec.Cost < 1_000_000 {
				t.Errorf("%s: %+v", f.name, rec)
			}
		}
	}
	r := start(t)
	r.mock.Script(mockllm.Step{Encoding: "br"})
	if a := r.post(messages, ask); a.status != 502 {
		t.Errorf("%+v", a)
	}
	if rec := r.record(1); rec.Usage.Output != 100 || rec.Refused != wire.BadAnswer {
		t.Errorf("%+v", rec)
	}
}

func TestAttack18AnswersOfAnotherModel(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.Prices = map[string]Price{"m": price("1", "10"), "dear": price("10", "100")} }))
	r.mock.Script(mockllm.Step{Model: "dear"})
	r.post("/openai/v1/chat/completions", ask)
	if rec := r.record(1); rec.Cost.String() != "0.0142" || rec.Answered != "dear" {
		t.Errorf("%v %+v", rec.Cost, rec)
	}
	for _, body := range []string{`{"model":"m","Model":"dear"}`, `{"model":"m","models":["dear"]}`, `{"model":"m"}{"model":"dear"}`} {
		if a := r.post("/openai/v1/chat/completions", body); a.status != 400 {
			t.Errorf("%s: %+v", body, a)
		}
	}
}

func TestAttack21DecompressionBomb(t *testing.T) {
	t.Parallel()
	r := start(t)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 80 {
		_, _ = z.Write(zeros)
	}
	z.Close()
	r.mock.Script(mockllm.Step{Body: bomb.Bytes(), Header: http.Header{"Content-Encoding": {"gzip"}}})
	b, _ := r.open(messages, ask)
	if n, err := io.Copy(io.Discard, b); err == nil {
		t.Errorf("it came to an end: %d bytes", n)
	}
	if rec := r.record(1); rec.BytesOut > 64<<20 {
		t.Errorf("%d bytes", rec.BytesOut)
	}
	a := r.do(t.Context(), "POST", messages, "x", http.Header{"X-Api-Key": {r.token}, "Content-Encoding": {"gzip"}})
	if a.status != 400 || len(r.mock.Requests()) != 1 {
		t.Errorf("a compressed request: %+v", a)
	}
}

func TestAttack22BodiesWithinBounds(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.MaxBody = 1000 }), func(_ *Config, o *Options) { o.Bodies = 1500 })
	if a := r.post(messages, strings.Repeat("x", 1001)); a.status != 413 || !strings.Contains(a.body, "request_too_large") {
		t.Errorf("%+v", a)
	}
	r.record(1)
	hold, held := make(chan struct{}), make(chan struct{})
	var first sync.Once
	r.mock.Always(func(mockllm.Request) mockllm.Step {
		first.Do(func() { close(held) })
		return mockllm.Step{Hold: hold}
	})
	big := `{"model":"m","x":"` + strings.Repeat("x", 900) + `"}`
	done := make(chan answer, 1)
	go func() { done <- r.post(messages, big) }()
	<-held // it is being answered, and holds its body
	if a := r.post(messages, big); a.status != 429 || a.header.Get("Retry-After") != "1" {
		t.Errorf("%+v", a)
	}
	close(hold)
	if a := <-done; a.status != 200 {
		t.Errorf("%+v", a)
	}
	if a := r.post(messages, big); a.status != 200 {
		t.Errorf("afterwards: %+v", a)
	}
}

func TestAttack24SilentUpstreams(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) {
		u.Timeouts = Timeouts{FirstByte: 200 * time.Millisecond, Idle: 200 * time.Millisecond}
	}))
	r.mock.Script(mockllm.Step{Hold: make(chan struct{})}, mockllm.Step{Text: "x", HoldEvent: make(chan struct{})})
	if a := r.post(messages, askStream); a.status != 503 || a.header.Get(wire.Marker) != "upstream_unavailable" {
		t.Errorf("%+v", a)
	}
	if rec := r.record(1); rec.Cost == nil || *rec.Cost == 0 {
		t.Errorf("nobody knows what came of it, and it cost nothing: %+v", rec)
	}
	if a := r.post(messages, askStream); a.err == nil {
		t.Errorf("%+v", a)
	}
	if rec := r.record(1); rec.End != Idle {
		t.Errorf("%+v", rec)
	}
}

func TestAttack25LogInjection(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.post(messages, `{"model":"m\n{\"grant\":\"forged\"}\u001b[31m","x":1}`)
	if rec := r.record(1); strings.ContainsAny(rec.Model, "\n\x1b") {
		t.Errorf("%q", rec.Model)
	}
	r.post(messages, `{"model":"`+strings.Repeat("m", 10_000)+`"}`)
	if rec := r.record(1); len(rec.Model) > 128 {
		t.Errorf("%d", len(rec.Model))
	}
}

func TestAttack27ProxiesOfTheEnvironment(t *testing.T) {
	other := start(t)
	t.Setenv("HTTP_PROXY", "http://"+other.addr)
	t.Setenv("ALL_PROXY", "http://"+other.addr)
	tr := newTransport(true, nil)
	if tr.Proxy != nil {
		t.Error("a proxy of the environment would see the key")
	}
	r := start(t)
	if a := r.post(messages, ask); a.status != 200 || other.dialled() != 0 {
		t.Errorf("%+v", a)
	}
}

func TestAttack29NothingInARequestRaisesAGrant(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.token, _ = r.mint(GrantSpec{Trial: "capped", Trials: Sum{Requests: 1}})
	h := func() http.Header {
		return http.Header{
			"X-Api-Key": {r.token}, "X-Trial-Budget": {"1000"}, "X-Harborgate-Budget": {"1000"}, "X-Job": {"other"}, "X-Trial": {"other"},
		}
	}
	if a := r.do(t.Context(), "POST", messages, ask, h()); a.status != 200 {
		t.Errorf("%+v", a)
	}
	r.record(1)
	if a := r.do(t.Context(), "POST", messages, ask, h()); a.status != 402 || !strings.Contains(a.body, "trial's budget of 1 requests is used up") {
		t.Errorf("%+v", a)
	}
}

func TestAttack30KeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := file("good", 0o600, canary+"\n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	inOpen := filepath.Join(open, "key")
	if err := os.WriteFile(inOpen, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	var s Sources
	if k, err := s.resolve(t.Context(), KeyRef("file:"+good)); err != nil || k.value != canary {
		t.Errorf("%v", err)
	}
	for p, want := range map[string]string{
		file("world", 0o644, canary): "0644", file("group", 0o640, canary): "0640", link: "link", dir: "regular", inOpen: "0777",
		filepath.Join(dir, "none"): "no such file", file("empty", 0o600, ""): "empty", file("held", 0o600, "proxy-managed"): "placeholder",
		file("lines", 0o600, canary+"\n"+canary): "line ends",
	} {
		_, err := s.resolve(t.Context(), KeyRef("file:"+p))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), p) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestAttack32GrantOfAnotherUpstream(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.token, _ = r.mint(GrantSpec{Upstreams: []string{"openai"}, Models: []string{"m"}})
	if a := r.post(messages, ask); a.status != 403 || r.dialled() != 0 {
		t.Errorf("%+v", a)
	}
	if a := r.post("/openai/v1/chat/completions", `{"model":"m2","messages":[]}`); a.status != 400 || r.dialled() != 0 {
		t.Errorf("%+v", a)
	}
}

func TestAttack35RetriesAreOneRequest(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.mock.Script(mockllm.Step{Status: 500}, mockllm.Step{Reset: true}, mockllm.Step{})
	a := r.post(messages, ask)
	rec := r.record(1)
	if a.status != 200 || rec.Attempts != 3 || len(r.mock.Requests()) != 3 {
		t.Errorf("%+v %+v", a, rec)
	}
	if b := r.proxy.Status().Accounts["trial/j/t"]; b.Spent.Requests != 1 || b.Spent.Money != *rec.Cost || !b.Reserved.IsZero() {
		t.Errorf("%+v", b)
	}
	r.mock.Script(mockllm.Step{CutAfter: 3}) // after the first byte, never
	if a := r.post(messages, askStream); a.err == nil || len(r.mock.Requests()) != 4 {
		t.Errorf("%+v", a)
	}
}

func TestAttack36BodiesAreWrittenNowhere(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.post(messages, `{"model":"m","max_tokens":1,"messages":[{"content":"please log NEEDLE"}]}`)
	r.post(messages, `{"model":"m","max_tokens":"NEEDLE"}`)
	r.post(messages+"/NEEDLE?NEEDLE=1", `NEEDLE`)
	r.record(3)
	if all := fmt.Sprint(r.records) + r.log.String(); strings.Contains(all, "NEEDLE") {
		t.Error(all)
	}
}

func TestAttack37OnlyTheUpstreamSaysWhatWasUsed(t *testing.T) {
	t.Parallel()
	r := start(t)
	h := http.Header{"X-Api-Key": {r.token}, "X-Usage": {"0"}, "X-Cost": {"0"}}
	r.do(t.Context(), "POST", messages, `{"model":"m","max_tokens":100,"usage":{"input_tokens":0,"output_tokens":0}}`, h)
	if rec := r.record(1); rec.Usage.Output != 42 {
		t.Errorf("%+v", rec)
	}
}
