package atif

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Run collects the steps of a run as an agent's own records tell of them. The zero
// value is ready.
type Run struct {
	SessionID string
	steps     []Step
	calls     map[string]int // step by call
}

// Add adds a step and numbers it. A call that came without a name of its own gets one.
func (r *Run) Add(s Step) {
	s.ID = len(r.steps) + 1
	if r.calls == nil {
		r.calls = map[string]int{}
	}
	for i := range s.ToolCalls {
		c := &s.ToolCalls[i]
		c.ID, c.Arguments = cmp.Or(c.ID, fmt.Sprintf("call-%d-%d", s.ID, i+1)), object(c.Arguments)
		r.calls[c.ID] = s.ID
	}
	r.steps = append(r.steps, s)
}

// Lead adds a step before all others.
func (r *Run) Lead(s Step) {
	rest := r.steps
	r.steps, r.calls = nil, nil
	r.Add(s)
	for _, s := range rest {
		r.Add(s)
	}
}

// Observe adds what came of a call. That of a call nobody made is no step's.
func (r *Run) Observe(call, content string) {
	id, ok := r.calls[call]
	if !ok {
		return
	}
	s := &r.steps[id-1]
	if s.Observation == nil {
		s.Observation = &Observation{}
	}
	s.Observation.Results = append(s.Observation.Results, Result{call, content})
}

// Last is the latest step, to add to; nil when there is none.
func (r *Run) Last() *Step {
	if len(r.steps) == 0 {
		return nil
	}
	return &r.steps[len(r.steps)-1]
}

// object is arguments as an object: those that are something else are its input.
func object(raw json.RawMessage) json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) == nil && o != nil {
		return raw
	}
	text := string(raw)
	_ = json.Unmarshal(raw, &text) // a string is itself
	out, _ := json.Marshal(map[string]string{"input": text})
	return out
}

// Trajectory is the run as a document. claimed are the agent's own sums; where it has
// none, those of the steps have to do.
func (r *Run) Trajectory(a Agent, claimed Metrics) *Trajectory {
	sum := claimed
	for i := range r.steps {
		m := r.steps[i].Metrics
		if m == nil {
			continue
		}
		for _, f := range []struct {
			total **int64
			given bool
			step  *int64
		}{{&sum.Prompt, claimed.Prompt != nil, m.Prompt}, {&sum.Completion, claimed.Completion != nil, m.Completion}, {&sum.Cached, claimed.Cached != nil, m.Cached}} {
			if !f.given && f.step != nil {
				n := *f.step
				if *f.total != nil {
					n += **f.total
				}
				*f.total = &n
			}
		}
	}
	return &Trajectory{
		SchemaVersion: Version, SessionID: r.SessionID, Agent: a, Steps: r.steps,
		FinalMetrics: &FinalMetrics{sum.Prompt, sum.Completion, sum.Cached, sum.CostUSD, len(r.steps)},
	}
}
