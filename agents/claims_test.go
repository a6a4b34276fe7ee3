package agents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"harborgate/agents/atif"
	"harborgate/trials"
)

// What an agent starts can write into its output: numbers that no run comes to neither
// overflow into results nor into trajectories, whatever the agent.
func TestImpossibleClaimsAreNone(t *testing.T) {
	t.Parallel()
	claims := map[string]struct {
		facts facts
		lines string // %[1]s is tokens, %[2]s dollars
	}{
		"claude-code":    {claudeCode(), `{"type":"assistant","message":{"id":"a","content":[],"usage":{"input_tokens":%[1]s,"cache_read_input_tokens":%[1]s,"cache_creation_input_tokens":%[1]s}}}` + "\n" + `{"type":"result","total_cost_usd":%[2]s,"usage":{"input_tokens":%[1]s,"cache_read_input_tokens":%[1]s,"cache_creation_input_tokens":%[1]s,"output_tokens":%[1]s}}`},
		"codex":          {codex(), `{"type":"turn.completed","usage":{"input_tokens":%[1]s,"cached_input_tokens":%[1]s,"output_tokens":%[1]s}}`},
		"pi":             {pi(), `{"type":"message_end","message":{"role":"assistant","timestamp":9223372036854775807,"usage":{"input":%[1]s,"cacheRead":%[1]s,"cacheWrite":%[1]s,"output":%[1]s,"cost":{"total":%[2]s}}}}`},
		"opencode":       {opencode(), `{"type":"step_finish","timestamp":-1,"part":{"cost":%[2]s,"tokens":{"input":%[1]s,"output":%[1]s,"reasoning":%[1]s,"cache":{"read":%[1]s,"write":%[1]s}}}}`},
		"gemini-cli":     {gemini(), `{"type":"result","status":"success","stats":{"total_tokens":-5,"input_tokens":%[1]s,"cached":%[1]s}}`},
		"qwen-coder":     {qwen(), `{"type":"assistant","message":{"id":"a","content":[],"usage":{"input_tokens":%[1]s,"output_tokens":%[1]s}}}` + "\n" + `{"type":"result","usage":{"input_tokens":%[1]s,"cache_read_input_tokens":%[1]s,"output_tokens":%[1]s}}`},
		"goose":          {goose(), `{"type":"complete","input_tokens":%[1]s,"output_tokens":%[1]s,"cache_read_input_tokens":%[1]s,"cost_usd":%[2]s}`},
		"mini-swe-agent": {miniSWE(), `{"info":{"exit_status":"Submitted","model_stats":{"instance_cost":%[2]s}},"messages":[{"role":"assistant","extra":{"timestamp":1e300,"cost":%[2]s,"response":{"usage":{"prompt_tokens":%[1]s,"completion_tokens":%[1]s,"prompt_tokens_details":{"cached_tokens":%[1]s}}}}},{"role":"assistant","extra":{"response":{"usage":{"prompt_tokens":%[1]s}}}}]}`},
		"aider":          {aider(), "Tokens: %[1]s sent, %[1]sk cache hit, %[1]s received. Cost: $%[2]s message, $%[2]s session."},
	}
	for name, c := range claims {
		for _, tokens := range []string{"9223372036854775807", "-7", "1e300", "null", `"7"`} {
			text := fmt.Sprintf(c.lines, tokens, map[bool]string{true: "1e308", false: "-3"}[tokens == "1e300"])
			out, run := c.facts.outcome(), atif.Run{}
			run.Add(atif.Step{Source: atif.User, Message: "do it"})
			for range 3 {
				for line := range strings.SplitSeq(text, "\n") {
					out.line([]byte(line))
					if c.facts.steps != nil {
						c.facts.steps(&run)([]byte(line))
					}
				}
			}
			got, _ := out.result()
			believable(t, name+" "+tokens, got.Usage)
			traj := run.Trajectory(atif.Agent{Name: name, Version: "1"}, atif.Metrics{})
			believable(t, name+" "+tokens+", in all", trials.Usage{InputTokens: traj.FinalMetrics.Prompt, CacheTokens: traj.FinalMetrics.Cached, OutputTokens: traj.FinalMetrics.Completion})
			for _, s := range traj.Steps {
				if s.Metrics != nil {
					believable(t, name+" "+tokens+", a step", trials.Usage{InputTokens: s.Metrics.Prompt, CacheTokens: s.Metrics.Cached, OutputTokens: s.Metrics.Completion, CostUSD: s.Metrics.CostUSD})
				}
				if len(s.Timestamp) > len("2006-01-02T15:04:05.000Z") {
					t.Errorf("%s: a step is of %s", name, s.Timestamp)
				}
			}
		}
	}
}

func believable(t *testing.T, what string, u trials.Usage) {
	t.Helper()
	for _, n := range []*int64{u.InputTokens, u.CacheTokens, u.OutputTokens} {
		if n != nil && (*n < 0 || *n > mostTokens) {
			t.Errorf("%s: %d tokens", what, *n)
		}
	}
	if u.CostUSD != nil && (*u.CostUSD < 0 || *u.CostUSD > mostDollars) {
		t.Errorf("%s: $%g", what, *u.CostUSD)
	}
	if _, err := json.Marshal(u); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestCacheWithoutPromptIsNone(t *testing.T) {
	t.Parallel()
	if r := (used{in: 5, read: 7, out: 1}).result(); r.CacheTokens != nil || *r.InputTokens != 5 || *r.OutputTokens != 1 {
		t.Errorf("%+v", r)
	}
}
