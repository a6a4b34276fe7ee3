package providertest_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/providers/limit"
	"harborgate/providers/observe"
	"harborgate/providers/providertest"
	"harborgate/providers/retry"
)

// recorder is a Reporter that remembers.
type recorder struct {
	mu       sync.Mutex // guards messages
	messages []string
}

func (r *recorder) Logf(string, ...any) {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}

func (r *recorder) FailNow() { runtime.Goexit() }

// run runs one case in a bubble, where waiting takes no time, and returns what
// it complained about. prepare is called in the bubble and returns what decorates
// or breaks each instance of the fake.
func run(t *testing.T, c providertest.Case, prepare func() decorator) []string {
	t.Helper()
	r := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		h := harness(t, w, prepare())
		done := make(chan struct{})
		go func() {
			defer close(done)
			providertest.RunCase(t.Context(), c, h, r)
		}()
		<-done
		w.Clear()
		<-time.After(2 * patience) // goroutines of broken providers end by themselves
	})
	return r.messages
}

// decorator makes a provider of another.
type decorator func(providers.Provider) providers.Provider

func harness(t *testing.T, w *fake.World, open decorator) providertest.Harness {
	t.Helper()
	image := func(script string) fake.Image {
		return fake.Image{Entrypoint: []string{"/entrypoint"}, Files: map[string]string{"/entrypoint": script}}
	}
	err := errors.Join(
		w.SetImage("fake:service", image(providertest.ServiceEntrypoint)),
		w.SetImage("fake:failing", image(providertest.FailingEntrypoint)),
		w.SetImage("fake:late", image(providertest.LateEntrypoint)),
		w.SetImage("fake:unknown", fake.Image{Missing: true}),
	)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(c net.Conn) { _ = c.Close() }
	w.Serve("198.51.100.7:80", answer)
	w.Serve("example.com:0", answer)
	return providertest.Harness{
		Open: func() (providers.Provider, error) {
			return open(fake.New(fake.Options{World: w, CreateTime: 30 * time.Millisecond})), nil
		},
		Spec: func() providers.Spec { return providers.Spec{Source: providers.Source{Image: "fake:debian"}} },
		Sources: providertest.Sources{
			Service: providers.Source{Image: "fake:service"}, Failing: providers.Source{Image: "fake:failing"},
			Late: providers.Source{Image: "fake:late"}, Unknown: providers.Source{Image: "fake:unknown"},
		},
		HostAddrs: []string{"198.51.100.7:80"},
		Slow:      true,
	}
}

func intact() decorator { return func(p providers.Provider) providers.Provider { return p } }

// brokenBy breaks every instance in the same way, with shared state.
func brokenBy(make func() breaks) func() decorator {
	return func() decorator {
		b := make()
		return func(p providers.Provider) providers.Provider { return breakIt(p, b) }
	}
}

func needsRealProcesses(c providertest.Case) bool {
	return slices.Contains(c.Needs, providertest.NeedRealProcesses)
}

// fakeCases are the cases that the fake can show side by side.
func fakeCases() []providertest.Case {
	return slices.DeleteFunc(providertest.Cases(), func(c providertest.Case) bool {
		return needsRealProcesses(c) || c.Name == providertest.MemoryCase
	})
}

// TestMemoryCaseBites is not parallel, so that the process is its own.
func TestMemoryCaseBites(t *testing.T) {
	c := caseNamed(t, providertest.MemoryCase)
	if got := run(t, c, intact); len(got) > 0 {
		t.Errorf("the case fails: %q", got)
	}
	if got := run(t, c, brokenBy(mutants()[c.Name].make)); len(got) == 0 {
		t.Error("it does not complain about a provider that keeps all output in memory")
	}
}

// TestCasesPassOnTheFake is the control of the tests below.
func TestCasesPassOnTheFake(t *testing.T) {
	t.Parallel()
	for _, c := range fakeCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, c, intact); len(got) > 0 {
				t.Errorf("the case fails: %q", got)
			}
		})
	}
}

func TestCasesPassThroughAllDecorators(t *testing.T) {
	t.Parallel()
	decorate := func() decorator {
		return func(p providers.Provider) providers.Provider {
			limited := limit.New(p, limit.Options{Calls: limit.PerSecond(1000, 10), AtOnce: limit.AtMost(4)})
			return observe.New(retry.New(limited, retry.Options{}), observe.Options{})
		}
	}
	for _, c := range fakeCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, c, decorate); len(got) > 0 {
				t.Errorf("the case fails: %q", got)
			}
		})
	}
}

func group(name string) string {
	g, _, _ := strings.Cut(name, "/")
	return g
}

// TestBrokenProvidersFail runs each broken provider against its case and the
// others of its group: exactly those that the table names must fail.
func TestBrokenProvidersFail(t *testing.T) {
	t.Parallel()
	for name, m := range mutants() {
		if name == providertest.MemoryCase {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := append([]string{name}, m.also...)
			slices.Sort(want)
			var got []string
			for _, c := range fakeCases() {
				if group(c.Name) != group(name) {
					continue
				}
				if complaints := run(t, c, brokenBy(m.make)); len(complaints) > 0 {
					got = append(got, c.Name)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("a provider broken in %s fails\n%q, want\n%q", name, got, want)
			}
		})
	}
}

// TestCasesForRealProcessesBite shows these cases, which the fake cannot pass
// honestly, a right answer and a wrong one.
func TestCasesForRealProcessesBite(t *testing.T) {
	t.Parallel()
	for name, m := range canned() {
		c := caseNamed(t, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, c, brokenBy(func() breaks { return m.right })); len(got) > 0 {
				t.Errorf("it complains about a right answer: %q", got)
			}
			if got := run(t, c, brokenBy(func() breaks { return m.wrong })); len(got) == 0 {
				t.Error("it does not complain about a wrong answer")
			}
		})
	}
}

func caseNamed(t *testing.T, name string) providertest.Case {
	t.Helper()
	for _, c := range providertest.Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return providertest.Case{}
}

func TestEveryCaseHasABrokenProvider(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	broken, real := mutants(), canned()
	for _, c := range providertest.Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are called %s", c.Name)
		}
		seen[c.Name] = true
		_, isBroken := broken[c.Name]
		_, isCanned := real[c.Name]
		if isBroken == needsRealProcesses(c) || isCanned != needsRealProcesses(c) {
			t.Errorf("%s has no broken provider in its table", c.Name)
		}
	}
	if len(seen) < 45 {
		t.Errorf("%d cases, want at least 45", len(seen))
	}
	for name := range broken {
		if !seen[name] {
			t.Errorf("a provider is broken in %s, which is no case", name)
		}
	}
}

func TestExemptionsAreAllOrNothing(t *testing.T) {
	t.Parallel()
	var all []string
	for _, c := range providertest.Cases() {
		if needsRealProcesses(c) {
			all = append(all, c.Name)
		}
	}
	tests := map[string]struct {
		exempt []string
		ok     bool
	}{
		"none": {nil, true}, "all": {all, true}, "one missing": {all[1:], false},
		"one too many": {append([]string{"exec/exit-code"}, all...), false},
	}
	for name, test := range tests {
		if err := providertest.CheckExempt(providertest.Harness{ExemptRealProcesses: test.exempt}); (err == nil) != test.ok {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
