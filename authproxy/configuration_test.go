package authproxy

import (
	"strings"
	"testing"
)

func TestSumsThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"budgets: {day: -1}":      `budgets: day: "-1" is no sum`,
		"budgets:\n  trial: much": `budgets: trial: "much" is no sum`,
		"upstreams: {a: {dialect: anthropic, keys: [env:K], prices: {m: {input: -1, output: 2}}}}":                              `upstreams.a: prices of m: input: "-1"`,
		"upstreams: {a: {dialect: anthropic, keys: [env:K], prices: {m: {input: 1, output: 2, above: {tokens: 5, input: x}}}}}": `prices of m: above.input: "x"`,
		"upstreams: {a: {dialect: anthropic, keys: [env:K], prices: {m: {input: 1, output: 2, search: -3, max_output: 5}}}}":    `prices of m: search: "-3"`,
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Parse([]byte("budgets: {day: ~, job: 0}\nupstreams: {a: {dialect: anthropic, keys: [env:K], prices: {m: {input: 1, output: 2, context: 5, tiers: {x: 50}}}}}")); err != nil {
		t.Error(err)
	}
}

func TestReloadNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	var changed []string
	r := start(t, func(_ *Config, o *Options) { o.Restart = func() []string { return changed } })
	if s := r.proxy.Status(); s.Restart != nil {
		t.Errorf("%v", s.Restart)
	}
	changed = []string{"auth.listen"}
	if err := r.proxy.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.proxy.Status(); len(s.Restart) != 1 || s.Restart[0] != "auth.listen" || !strings.Contains(r.log.String(), "needs a restart") {
		t.Errorf("%v\n%s", s.Restart, r.log.String())
	}
}
