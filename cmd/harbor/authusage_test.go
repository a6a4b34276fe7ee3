package main

import (
	"bytes"
	"strings"
	"testing"

	"harborgate/authproxy"
	"harborgate/authproxy/usage"
)

func TestUsageWithoutAPriceIsADash(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := printUsage(&env{streams: streams{out: &out}}, usage.Report{By: usage.ByJob, Rows: []usage.Row{
		{Key: "a", Requests: 2, Unpriced: 2}, {Key: "b", Requests: 1, Cost: new(authproxy.NanoUSD(0))},
	}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasSuffix(lines[1], " – and 2 without a price") || !strings.HasSuffix(lines[2], " 0") {
		t.Errorf("%s", out.String())
	}
}

func TestUsageWithoutARecordIsSaid(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	err := printUsage(&env{streams: streams{out: &out, err: &errs}}, usage.Report{By: usage.ByJob, Unrecorded: 5_000_000})
	if err != nil || !strings.Contains(errs.String(), "and 0.005 USD") {
		t.Errorf("%v %q", err, errs.String())
	}
}
