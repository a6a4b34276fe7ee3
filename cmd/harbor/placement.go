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

// placement is what an event says about where a try runs, or why it did not count.
type placement struct {
	Provider string            `json:"provider"`
	Reason   string            `json:"reason"`
	Passed   map[string]string `json:"passed"` // preferred providers, and why they did not take it
	Moved    bool              `json:"moved"`
	Why      string            `json:"why"`
}

// placementLines tell of each try of a trial where it ran and why, as far as the
// events of its job are there.
func placementLines(dir string) []string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	all, err := events.NewReader(filepath.Join(filepath.Dir(dir), results.EventsFile)).Read()
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range all {
		var p placement
		if e.Trial != filepath.Base(dir) || e.Type != trials.EventPlaced && e.Type != trials.EventRetry || json.Unmarshal(e.Data, &p) != nil {
			continue
		}
		switch {
		case e.Type == trials.EventPlaced:
			where := "nowhere"
			if p.Provider != "" {
				where = "at " + oneLine(p.Provider)
			}
			out = append(out, fmt.Sprintf("placed\ttry %d %s: %s", e.Try, where, oneLine(p.Reason)))
			for _, name := range slices.Sorted(maps.Keys(p.Passed)) {
				out = append(out, fmt.Sprintf("\tnot at %s: %s", oneLine(name), oneLine(p.Passed[name])))
			}
		case p.Moved:
			out = append(out, fmt.Sprintf("moved\ttry %d did not count: %s", e.Try, oneLine(p.Why)))
		}
	}
	return out
}
