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
