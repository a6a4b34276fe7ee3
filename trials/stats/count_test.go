package stats

import (
	"strings"
	"testing"

	"harborgate/trials"
)

// A group of failures says why: with the first line of what its first trial said, clipped.
func TestFailureGroupsSayWhy(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", mostReason)
	for message, want := range map[string]string{
		"docker build of t failed: exit code: 3\n#1 a log\n": "docker build of t failed: exit code: 3",
		"\n  \nsecond line\r\nthird":                         "second line",
		"":                                                   "",
		long:                                                 strings.Repeat("é", mostReason/2-2) + "…",
	} {
		var all []Trial
		for _, name := range []string{"b", "a"} {
			all = append(all, Of(&trials.Result{
				TrialName: name, ExceptionInfo: &trials.ExceptionInfo{Type: trials.ExcRuntime, Message: strings.ReplaceAll(message, "t failed", name+" failed")},
				Harborgate: &trials.Extra{Failure: &trials.Failure{Blame: trials.BlameTask}},
			}))
		}
		f := onlyRow(t, New(all, Plan{Trials: 2})).Failures
		if len(f) != 1 || f[0].Reason != strings.ReplaceAll(want, "t failed", "a failed") {
			t.Errorf("%q: %+v, want %q", message, f, want)
		}
	}
}

// What most of a group failed of is said, and that there were others.
func TestFailureGroupsWithSeveralReasonsSaySo(t *testing.T) {
	t.Parallel()
	var all []Trial
	for i, reason := range []string{"no such model", "out of reach", "out of reach", "no such key"} {
		x := missing(string(rune('a'+i)), trials.BlameInfrastructure, "ModelUnavailableError")
		x.Reason = reason
		all = append(all, x)
	}
	f := onlyRow(t, New(all, Plan{Trials: len(all)})).Failures
	if len(f) != 1 || f[0].Reason != "out of reach" || f[0].Others != 2 {
		t.Errorf("%+v", f)
	}
}
