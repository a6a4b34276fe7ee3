package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy"
)

func TestTokensThatCannotBeMeantAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--source", "localhost"}, {"--source", "127.0.0.1:80"}, {"--source", "10.0.0.0/8"}, {"--expires", "0s"}, {"--expires", "-1h"},
		{"--expires", "1000h"}, {"--concurrent", "-1"}, {"--budget-tokens", "-1"}, {"--budget-requests", "-1"}, {"--budget-usd", "-1"},
		{"--concurrent", "0"}, {"--budget-tokens", "0"}, {"--budget-requests", "0"}, {"--budget-usd", "0"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"auth", "token", "create"}, args...), streams{out: &out, err: &errs})
		if code != exitUsage || !strings.Contains(errs.String(), args[0]) {
			t.Errorf("%v: exit code %d, error %q", args, code, errs.String())
		}
	}
}

// The proxy compares the text of addresses.
func TestSourceOfATokenIsWrittenAsTheProxySeesIt(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"": "", "127.0.0.1": "127.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "0:0:0:0:0:0:0:1": "::1", "FE80::A": "fe80::a"} {
		f := tokenFlags{expires: time.Hour, spec: authproxy.GrantSpec{Source: given}}
		if err := f.check(); err != nil || f.spec.Source != want {
			t.Errorf("%q: %q %v, want %q", given, f.spec.Source, err, want)
		}
	}
}

func TestATokenWithABudgetForAModelWithoutAPriceIsRefused(t *testing.T) {
	t.Parallel()
	prices := func(upstream, model string) (authproxy.Priced, error) {
		return authproxy.Priced{Tokens: upstream == "a" && model == "known"}, nil
	}
	money := authproxy.GrantSpec{Upstreams: []string{"a", "b"}, Budget: authproxy.Sum{Money: 1}}
	for name, c := range map[string]struct {
		models []string
		spec   authproxy.GrantSpec
		day    authproxy.NanoUSD
		ok     bool
	}{
		"priced":          {[]string{"known", "o*"}, money, 0, true},
		"not priced":      {[]string{"known", "other"}, money, 0, false},
		"for the day":     {[]string{"other"}, authproxy.GrantSpec{Upstreams: money.Upstreams}, 5, false},
		"without budgets": {[]string{"other"}, authproxy.GrantSpec{Upstreams: money.Upstreams}, 0, true},
	} {
		c.spec.Models = c.models
		err := checkPrices(prices, c.spec, authproxy.Budgets{Day: c.day})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "model other has no price") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
