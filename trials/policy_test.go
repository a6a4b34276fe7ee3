package trials

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDefaultExcludesAreHarbors(t *testing.T) {
	t.Parallel()
	var want []string
	if err := json.Unmarshal(excludesOf(t), &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != 30 {
		t.Fatalf("%d golden names, want 30", len(want))
	}
	if diff := cmp.Diff(want, DefaultExcludes(nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPolicyTable(t *testing.T) {
	t.Parallel()
	names := ExceptionNames()
	if doubles := slices.Compact(slices.Clone(names)); len(doubles) != len(names) {
		t.Error("a name stands in the table twice")
	}
	for name, want := range map[string]ErrorPolicy{
		ExcEnvironmentTimeout: {ShouldRetry: true},
		"ApiError":            {ShouldRetry: true, ShouldGrade: true},
		ExcRewardMissing:      {ShouldGrade: true},
		ExcCancelled:          {},
		ExcAgentTimeout:       {ShouldGrade: true, HasValidReward: true},
		ExcNonZeroExit:        {ShouldGrade: true, HasValidReward: true},
		"KeyError":            {ShouldRetry: true, ShouldGrade: true, HasValidReward: true},
		ExcRuntime:            {ShouldRetry: true, ShouldGrade: true, HasValidReward: true},
		ExcUnsupportedTask:    {},
		ExcInvalidTask:        {},
		ExcMissingVariable:    {},
		ExcSandboxLost:        {ShouldRetry: true},
		ExcHarness:            {ShouldRetry: true},
		ExcDeadline:           {ShouldRetry: true},
	} {
		if got := PolicyOf(name, nil); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// Every exception that a failure can get must have been thought about.
func TestEveryFailureHasAPolicy(t *testing.T) {
	t.Parallel()
	names := ExceptionNames()
	for _, r := range rules {
		if !slices.Contains(names, r.exception) {
			t.Errorf("%s has no row in the policy table", r.exception)
		}
	}
}

func TestPolicyOverrides(t *testing.T) {
	t.Parallel()
	overrides := map[string]ErrorPolicyOverride{
		ExcAgentTimeout: {ShouldRetry: ptr(true), HasValidReward: ptr(false)},
		"ApiError":      {ShouldRetry: ptr(false)},
	}
	want := ErrorPolicy{ShouldRetry: true, ShouldGrade: true}
	if got := PolicyOf(ExcAgentTimeout, overrides); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	excludes := DefaultExcludes(overrides)
	if slices.Contains(excludes, ExcAgentTimeout) || !slices.Contains(excludes, "ApiError") {
		t.Errorf("overrides did not change the default list: %v", excludes)
	}

	read := func(doc string) Set {
		c, err := ReadJobConfig([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return *c.Retry.ExcludeExceptions
	}
	const policy = `"override_error_policy": {"ApiError": {"should_retry": false}}`
	if s := read(`{` + policy + `}`); !s.Has("ApiError") || len(s) != 31 {
		t.Errorf("the read list has %d names: %v", len(s), s)
	}
	if s := read(`{` + policy + `, "retry": {"exclude_exceptions": ["X"]}}`); len(s) != 1 {
		t.Errorf("a given list was changed: %v", s)
	}
	if _, err := ReadJobConfig([]byte(`{"override_error_policy": {"A": {"shuold_retry": true}}}`)); err == nil {
		t.Error("an unknown key of an override was accepted")
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	set := func(names ...string) *Set { return ptr(NewSet(names...)) }
	standard := NewJobConfig().Retry.ExcludeExceptions
	for _, c := range []struct {
		name             string
		include, exclude *Set
		want             bool
	}{
		{"RuntimeError", nil, standard, true},
		{ExcAgentTimeout, nil, standard, false},
		{ExcAgentTimeout, nil, nil, true},
		{ExcAgentTimeout, nil, set(), true},
		{ExcAgentTimeout, set(ExcAgentTimeout), standard, false},
		{ExcAgentTimeout, set(ExcAgentTimeout), set("X"), true},
		{"RuntimeError", set("X"), standard, false},
		{"RuntimeError", set(), standard, true},
		{ExcUnsupportedTask, nil, standard, false},
		{ExcUnsupportedTask, nil, nil, false},
		{ExcUnsupportedTask, set(ExcUnsupportedTask), standard, true},
		{ExcSandboxLost, nil, standard, true},
		{"CustomError", nil, standard, true},
	} {
		got := RetryConfig{IncludeExceptions: c.include, ExcludeExceptions: c.exclude}.Retryable(c.name, nil)
		if got != c.want {
			t.Errorf("%s with include %v, exclude %v: %v", c.name, c.include, c.exclude, got)
		}
	}
}

// B118: by default what another try may help with, and never an authentication, a
// wrong request, an agent's time limit or a verdict.
func TestB118WhatIsRetried(t *testing.T) {
	t.Parallel()
	c := NewJobConfig().Retry
	for name, want := range map[string]bool{
		"AuthenticationError": false, "AgentAuthenticationError": false, "PermissionDeniedError": false, "BadRequestError": false,
		"UnprocessableEntityError": false, ExcAgentTimeout: false, ExcVerifierTimeout: false, ExcRewardMissing: false,
		ExcRewardInvalid: false, ExcNonZeroExit: false, ExcCancelled: false, ExcUnsupportedTask: false, ExcInvalidTask: false,
		ExcMissingVariable: false, "ApiRateLimitError": true, ExcSandboxLost: true, ExcHealthcheck: true, ExcRuntime: true,
		ExcEnvironmentTimeout: true, ExcAgentSetupTimeout: true, ExcMemoryLimit: true, "NetworkConnectionError": true,
	} {
		if got := c.Retryable(name, nil); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
