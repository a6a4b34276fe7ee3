package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"harborgate/internal/events"
	"harborgate/trials"
	"harborgate/trials/results"
)

// placement is a decision about a try: where it runs and why, or why it did not count.
type placement struct {
	Decision string `json:"decision"` // placed or moved
	Try      int    `json:"try"`
	Provider string `json:"provider,omitempty"` // none could run it when a placed try has none
	Reason   string `json:"reason"`
	// Passed are preferred providers, and why they did not take it.
	Passed map[string]string `json:"passed,omitempty"`
}

// placements are the decisions about a trial, as far as the events of its job are there.
func placements(dir string) []placement {
	out := []placement{}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return out
	}
	all, err := events.NewReader(filepath.Join(filepath.Dir(dir), results.EventsFile)).Read()
	if err != nil {
		return out
	}
	for _, e := range all {
		if e.Trial != filepath.Base(dir) {
			continue
		}
		if p, ok := placementOf(e); ok {
			out = append(out, p)
		}
	}
	return out
}

// placementOf reads an event, if it tells of a decision.
func placementOf(e trials.Event) (placement, bool) {
	var d struct {
		Provider, Reason, Why string
		Passed                map[string]string
		Moved                 bool
	}
	if e.Type != trials.EventPlaced && e.Type != trials.EventRetry || json.Unmarshal(e.Data, &d) != nil {
		return placement{}, false
	}
	if e.Type == trials.EventPlaced {
		return placement{"placed", e.Try, d.Provider, d.Reason, d.Passed}, true
	}
	return placement{Decision: "moved", Try: e.Try, Reason: d.Why}, d.Moved
}

// placementLines tell of each try of a trial where it ran and why.
func placementLines(dir string) []string {
	var out []string
	for _, p := range placements(dir) {
		what := "did not count"
		if p.Decision == "placed" {
			what = "nowhere"
			if p.Provider != "" {
				what = "at " + oneLine(p.Provider)
			}
		}
		out = append(out, fmt.Sprintf("%s\ttry %d %s: %s", p.Decision, p.Try, what, oneLine(p.Reason)))
		for _, name := range slices.Sorted(maps.Keys(p.Passed)) {
			out = append(out, fmt.Sprintf("\tnot at %s: %s", oneLine(name), oneLine(p.Passed[name])))
		}
	}
	return out
}
