package agents

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"

	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

//go:embed locks/mini-swe-agent.txt
var miniLock string

// miniSWE is mini-swe-agent. It asks by LiteLLM, keeps what it said and did in a file
// that it writes again after every step, and ends when a command says so. Each of its
// commands has a shell of its own.
func miniSWE() facts {
	program := wheels{"mini-swe-agent", "mini-swe-agent", "2.4.6", packages.Interpreter{From: 10, Below: 15}, miniLock}
	return facts{
		name: program.name, doc: "mini-swe-agent, unmodified, from this host's cache, with this host's Python", version: program.pinned, release: fullRelease, bundle: program.bundle,
		dialects: []string{"anthropic", "openai", "gemini", "openrouter"}, log: "mini-swe-agent.txt", report: miniReport,
		probe: providers.Command{Args: []string{runtimeDir + "/" + packages.PythonProgram, "-c", "pass"}}, quirks: pythonVariables(),
		options: []Option{
			{Name: "cost_limit", Doc: "dollars that it may spend by its own count, 0 is any", Type: number, Default: "0"},
			{Name: "reasoning_effort", Doc: "how hard the model thinks"},
			{Name: "config_file", Doc: "YAML file of this host with settings, over its own", File: true},
		},
		tools: true, files: miniFiles, command: miniCommand,
		outcome: func() outcome { return &miniOutcome{} }, steps: miniSteps,
	}
}

// miniReport is the file of its run, named as Harbor does.
const miniReport = "mini-swe-agent.trajectory.json"

// miniConfig is the file of the user's settings.
const miniConfig = "user.yaml"

func miniFiles(j job) (map[string]string, error) {
	files := map[string]string{}
	if text := j.Options["config_file"]; text != "" {
		files[miniConfig] = text
	}
	return files, nil
}

func miniCommand(j job) providers.Command {
	model, base := liteLLM(j)
	args := []string{
		"--yolo", "--exit-immediately", "--model=" + model, "--cost-limit=" + cmp.Or(j.Options["cost_limit"], "0"),
		"--output=" + j.LogsDir + "/" + miniReport, "-c", "mini.yaml",
	}
	if j.Options["config_file"] != "" {
		args = append(args, "-c", j.Home+"/"+miniConfig)
	}
	if v := j.Options["reasoning_effort"]; v != "" {
		args = append(args, "-c", "model.model_kwargs.reasoning_effort="+v)
	}
	args = append(args, "-c", "model.model_kwargs.api_base="+base, "--task="+j.Instruction+settings.DescribeTools(j.Tools))
	return providers.Command{
		Args: python("minisweagent.run.mini", args...),
		SecretEnv: map[string]string{
			"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_GLOBAL_CONFIG_DIR": j.Home, "MSWEA_SILENT_STARTUP": "1",
			"MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "5", // the proxy tries again, too: what it refuses stays refused

			"LITELLM_LOCAL_MODEL_COST_MAP": "True", dialects()[j.Dialect].keys[0]: j.Token,
		},
	}
}

// miniRun is what it writes down of a run.
type miniRun struct {
	Info struct {
		ExitStatus string `json:"exit_status"`
		Stats      struct {
			Cost dollars `json:"instance_cost"` // by LiteLLM's prices, 0 where it knows none
		} `json:"model_stats"`
	} `json:"info"`
	Messages []miniMessage `json:"messages"`
}

type miniMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content"`
	Calls     []miniCall      `json:"tool_calls"`
	Call      string          `json:"tool_call_id"`
	Extra     struct {
		Timestamp float64 `json:"timestamp"` // seconds since 1970
		Exception string  `json:"exception_str"`
		Cost      dollars `json:"cost"`
		Response  struct {
			Model string     `json:"model"`
			Usage *miniUsage `json:"usage"`
		} `json:"response"`
	} `json:"extra"`
}

type miniCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON
	} `json:"function"`
}

// miniUsage is LiteLLM's: whatever the provider counts, the prompt is with what was
// read from and written to a cache, the completion with reasoning.
type miniUsage struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Details    struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u miniUsage) used() used { return used{in: u.Prompt, read: u.Details.Cached, out: u.Completion} }

// miniOutcome reads its file. Only "Submitted" is an end as it should be: a model that
// calls no tool three times ends the run, too, with exit code 0.
type miniOutcome struct{ run miniRun }

func (o *miniOutcome) line(b []byte) { o.run = readMini(b) }

// readMini takes what is as it should be: the answer of a model that called no tool
// may be there in a form of its own.
func readMini(doc []byte) miniRun {
	var run miniRun
	_ = json.Unmarshal(doc, &run)
	return run
}

func (o *miniOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	var sum used
	var why string
	for _, m := range o.run.Messages {
		if u := m.Extra.Response.Usage; u != nil {
			sum.add(u.used())
			r = sum.result()
		}
		why = m.Extra.Exception
	}
	r.CostUSD = o.run.Info.Stats.Cost.known()
	switch status := o.run.Info.ExitStatus; {
	case len(o.run.Messages) == 0:
		return r, "it left no record of its run"
	case status == "":
		return r, "it ended before it was done"
	case status != "Submitted":
		return r, fmt.Sprintf("it ended with %s: %s", status, cmp.Or(why, "see its record in agent/"+miniReport))
	}
	return r, ""
}
