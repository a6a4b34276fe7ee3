package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harborgate/authproxy/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMoneyIsDecimalAtTheEdges(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]NanoUSD{
		"0": 0, "1": USD, "12.50": 12*USD + USD/2, "0.000000001": 1, ".5": USD / 2, "0.00375": 3_750_000, "1e-7": 100, "0.0000000001": 1,
	} {
		if got, err := ParseUSD(text); got != want || err != nil {
			t.Errorf("%q: %d %v", text, got, err)
		}
	}
	for _, text := range []string{"", ".", "-1", "1,5", "$1", "NaN", "1e99", "99999999999", "0x1"} {
		if got, err := ParseUSD(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for n, want := range map[NanoUSD]string{0: "0", USD: "1", 3_750_000: "0.00375", -USD / 2: "-0.5", 7_590_000: "0.00759"} {
		if n.String() != want {
			t.Errorf("%d: %s", n, n)
		}
	}
}

// What two calls of a known shape cost, as agents compute it from list prices.
func TestCostsOfKnownCalls(t *testing.T) {
	t.Parallel()
	prices, date, err := Builtin()
	if err != nil || date == "" {
		t.Fatal(date, err)
	}
	for _, c := range []struct {
		model string
		usage wire.Usage
		tier  string
		want  string
	}{
		{"claude-sonnet-4-5-20250929", wire.Usage{Input: 2000, CacheRead: 600, CacheWrite: 40, Output: 84}, "standard", "0.00759"},
		{"openai/gpt-5", wire.Usage{Input: 1400, CacheRead: 600, Output: 84, Reasoning: 14}, "", "0.002665"},
		{"gpt-5", wire.Usage{Input: 1400, CacheRead: 600, Output: 84}, "priority", "0.00533"},
		{"claude-sonnet-4-5", wire.Usage{Input: 200_001, Output: 1000}, "", "1.222506"}, // the dearer tier
		{"claude-haiku-4-5", wire.Usage{Searches: 3}, "", "0.03"},
	} {
		p, ok := prices.Of(c.model)
		if got := p.Cost(c.usage, c.tier); !ok || got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.model, got, c.want)
		}
	}
}

func TestUnknownModelsHaveNoPrice(t *testing.T) {
	t.Parallel()
	prices, _, _ := Builtin()
	for _, m := range []string{"gpt-5-pro", "gpt", "claude-sonnet-4-5-turbo", "", "gpt-5x"} {
		if _, ok := prices.Of(m); ok {
			t.Errorf("%q has a price", m)
		}
	}
}

func TestPricesWithAFinalStarFitAllThatBeginsSo(t *testing.T) {
	t.Parallel()
	one := func(n NanoUSD) Price { return Price{Rates: Rates{Input: n * USD, Output: n * USD}} }
	prices := Prices{Any: one(1), "claude-*": one(2), "claude-haiku-*": one(3), "claude-haiku-9": one(4), "other/*": one(5)}
	for model, want := range map[string]NanoUSD{
		"claude-x": 2, "claude-haiku-5": 3, "vendor/claude-haiku-5": 3, "claude-haiku-9": 4, "claude-haiku-9-20300101": 4, "gpt": 0, "my-claude-x": 0, "other/gpt": 5,
	} {
		if p, ok := prices.Of(model); p.Input != want*USD || ok != (want > 0) {
			t.Errorf("%s: %v %v, want %d", model, p.Input, ok, want)
		}
	}
}

// Row 31 of the public reports: cache reads are cheap, and only where stated.
func TestRow31CacheReads(t *testing.T) {
	t.Parallel()
	p := Price{Rates: Rates{Input: 3 * USD, CacheRead: USD / 10}}
	if got := p.Cost(wire.Usage{CacheRead: 100_000}, ""); got != USD/100 {
		t.Error(got)
	}
	p.CacheRead = 0
	if got := p.Cost(wire.Usage{CacheRead: 100_000}, ""); got != 3*USD/10 {
		t.Error("a price that is not stated:", got)
	}
}

// Row 5 of the public reports.
func TestRow05PriceForOneTokenIsRefused(t *testing.T) {
	t.Parallel()
	err := Prices{"m": {Rates: Rates{Input: 5_000_000 * USD}}}.Check()
	if err == nil || !strings.Contains(err.Error(), "million") {
		t.Error(err)
	}
}

func TestCostDoesNotRunOver(t *testing.T) {
	t.Parallel()
	p := Price{Rates: Rates{Input: dearest, Output: dearest}}
	if got := p.Cost(wire.Usage{Input: 1 << 62, Output: 1 << 62}, ""); got <= 0 {
		t.Error(got)
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	p := Price{Context: 1000, MaxOutput: 50}
	for _, c := range []struct {
		bytes int
		ask   wire.Ask
		want  wire.Usage
	}{
		{300, wire.Ask{MaxOutput: 10, Choices: 1}, wire.Usage{Input: 101, Output: 10}},
		{300, wire.Ask{MaxOutput: 1000, Choices: 3}, wire.Usage{Input: 101, Output: 150}},
		{1 << 20, wire.Ask{}, wire.Usage{Input: 1000, Output: 50}},
		{30, wire.Ask{Previous: "x"}, wire.Usage{Input: 1000, Output: 50}},
	} {
		if got := p.Worst(c.bytes, c.ask); got != c.want {
			t.Errorf("%d %+v: %+v", c.bytes, c.ask, got)
		}
	}
}

// Attack 15 of the threat model, rows 4 of the public reports: many at once get no
// more than one after the other would.
func TestAttack15ParallelRequestsShareABudget(t *testing.T) {
	t.Parallel()
	const k, n = 5, 64
	l, err := Open(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	charges := []Charge{{Account: "job/j", Name: "job", Cap: Sum{Money: 100 * USD}}, {Account: "trial/j/t", Name: "trial", Cap: Sum{Money: k*USD + USD/2}}}
	var admitted, refused atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range n {
		wg.Go(func() {
			<-start
			_, err := l.Reserve(charges, Sum{Money: USD, Requests: 1})
			var e *Exceeded
			switch {
			case err == nil:
				admitted.Add(1)
			case errors.As(err, &e) && e.Name == "trial" && e.What == "USD":
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	if admitted.Load() != k || refused.Load() != n-k {
		t.Errorf("%d admitted, %d refused", admitted.Load(), refused.Load())
	}
	if b := l.Balance("job/j"); b.Reserved.Money != k*USD {
		t.Errorf("a refused request left something: %+v", b)
	}
}

func TestCapsOfTokensAndRequests(t *testing.T) {
	t.Parallel()
	l := New()
	for what, c := range map[string]Charge{
		"tokens":   {Account: "a", Name: "x", Cap: Sum{Tokens: 10}},
		"requests": {Account: "b", Name: "x", Cap: Sum{Requests: 1}},
	} {
		r, err := l.Reserve([]Charge{c}, Sum{Tokens: 8, Requests: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Settle(Sum{Tokens: 3, Requests: 1}); err != nil {
			t.Fatal(err)
		}
		_, err = l.Reserve([]Charge{c}, Sum{Tokens: 8, Requests: 1})
		var e *Exceeded
		if !errors.As(err, &e) || e.What != what {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A budget that is not spent is not called used up because one request may not fit.
func TestWhatDoesNotFitIsNotCalledUsedUp(t *testing.T) {
	t.Parallel()
	l := New()
	charge := func(c Sum) []Charge { return []Charge{{Account: "a", Name: "trial", Cap: c}} }
	spend := func(s Sum) {
		r, err := l.Reserve(charge(Sum{}), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Settle(s); err != nil {
			t.Fatal(err)
		}
	}
	spend(Sum{Money: USD / 2, Tokens: 10})
	for want, c := range map[string][2]Sum{
		"a request may come to about 2 USD, and 0.5 of the trial's budget of 1 USD is left: lower max_tokens, or raise the budget":       {{Money: USD}, {Money: 2 * USD}},
		"a request may come to about 20 tokens, and 5 of the trial's budget of 15 tokens is left: lower max_tokens, or raise the budget": {{Tokens: 15}, {Tokens: 20}},
		"the trial's budget of 0.5 USD is used up": {{Money: USD / 2}, {Money: 1}},
	} {
		if _, err := l.Reserve(charge(c[0]), c[1]); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := l.Reserve(charge(Sum{}), Sum{Money: USD / 4}); err != nil { // stays open
		t.Fatal(err)
	}
	want := "the rest of the trial's budget of 1 USD is set aside for requests that are open"
	if _, err := l.Reserve(charge(Sum{Money: USD}), Sum{Money: USD / 2}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A restart keeps what was spent, and counts what was open in full.
func TestBudgetsSurviveRestarts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "ledger.jsonl")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	charges := []Charge{{Account: "trial/t", Name: "trial", Cap: Sum{Money: 10 * USD}}}
	settled, _ := l.Reserve(charges, Sum{Money: 4 * USD})
	if err := settled.Settle(Sum{Money: USD, Requests: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(charges, Sum{Money: 3 * USD, Requests: 1}); err != nil {
		t.Fatal(err)
	}
	crashed := filepath.Join(t.TempDir(), "ledger.jsonl") // what another process finds after a kill
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(crashed, append(b, `{"r":9,"as":["trial/t"],"n":{"u`...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time from the rewritten journal
		l, err = Open(crashed)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Balance("trial/t"); got.Spent != (Sum{Money: 4 * USD, Requests: 2}) || !got.Reserved.IsZero() {
			t.Errorf("after the crash: %+v", got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What a service runs for long does not grow with what it has served, and holds
// what is open when it is rewritten.
func TestJournalIsRewrittenWhileItIsUsed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.journal.most = 2000
	charges := []Charge{{Account: "trial/t", Name: "trial", Cap: Sum{}}, {Account: "job/j", Name: "job", Cap: Sum{}}}
	if _, err := l.Reserve(charges, Sum{Money: 5 * USD, Requests: 1}); err != nil { // open all the time
		t.Fatal(err)
	}
	const n = 500
	for range n {
		r, err := l.Reserve(charges, Sum{Money: USD, Requests: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Settle(Sum{Money: USD, Requests: 1}); err != nil {
			t.Fatal(err)
		}
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size() > 3000 {
		t.Errorf("%d bytes for two accounts", fi.Size())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range charges {
		if got := l.Balance(c.Account); got.Spent != (Sum{Money: (n + 5) * USD, Requests: n + 1}) {
			t.Errorf("%s: %+v", c.Account, got)
		}
	}
}

func TestAccountsThatNobodyUsesAreForgotten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	lines := fmt.Sprintf(`{"a":"day/old","n":{"usd":1},"t":%d}
{"a":"job/recent","n":{"usd":2},"t":%d}
{"a":"job/of an earlier version","n":{"usd":3}}
`, time.Now().Add(-forgotten-time.Hour).Unix(), time.Now().Add(-forgotten+time.Hour).Unix())
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := l.Balances()
	if len(got) != 2 || got["job/recent"].Spent.Money != 2*USD || got["job/of an earlier version"].Spent.Money != 3*USD {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "day/old") {
		t.Errorf("the journal still holds it: %s", text)
	}
}

func TestOneProcessHasTheJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(nil, Sum{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	l, err = Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestUnreadableJournalSpendsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(path, []byte("nonsense\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Error(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "nonsense\n{}\n" {
		t.Error("it was overwritten")
	}
}

func TestSumsThatAreTooLargeSaySo(t *testing.T) {
	t.Parallel()
	if _, err := ParseUSD("1000000000000"); err == nil || !strings.Contains(err.Error(), "at most 999999999") {
		t.Errorf("%v", err)
	}
}
