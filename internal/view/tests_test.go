package view

import (
	"path/filepath"
	"strings"
	"testing"

	"harborgate/trials"
	"harborgate/trials/results"
)

func FuzzParseTests(f *testing.F) {
	f.Add([]byte(`{"results": {"tests": [{"name": "a", "status": "passed", "duration": 1.5, "trace": "x"}]}}`))
	f.Add([]byte(`{"results": {"tests": [{"name": "\u001b[2J", "status": "\u202e", "duration": -1e308}]}}`))
	f.Add([]byte(`{"results": null}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := parseTests(b)
		if err != nil {
			return
		}
		p := &tests{tests: found}
		p.update(size{60, 12})
		for _, l := range p.view(60, 12) {
			if bad := obeyed(l); bad != "" || width(l) > 60 {
				t.Errorf("%q has %q, %d columns", l, bad, width(l))
			}
		}
	})
}

// Harbor blames nobody; its exceptions are known, so their blame is.
func TestHarborsFailuresAreBlamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "harbors")
	r := trialOf("slow__1", 4, 1)
	r.ExceptionInfo = &trials.ExceptionInfo{Type: trials.ExcAgentTimeout, Message: "too slow"}
	r.Harborgate = nil
	putTrial(t, dir, r)
	put(t, filepath.Join(dir, results.ResultFile), `{"id": "x", "n_total_trials": 2, "started_at": "2026-05-04T10:00:00", "stats": {"n_completed_trials": 1}}`)
	u := start(t, dir)
	u.shows("not ended", "AgentTimeoutError (agent)")
	u.press("enter")
	u.shows("agent: the agent's own doing", "too slow")
	if s := u.screen(); strings.Contains(s, "in phase") {
		t.Errorf("a phase that nobody knows:\n%s", s)
	}
}
