package results

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"harborgate/trials"
)

// mostRemembered bounds what a reader remembers of each kind.
const mostRemembered = 1000

// remembered is what was read under the bytes that it was read from: the trials of
// a job have most of what they say in common, and parsing is what takes time.
type remembered[T any] map[string]T

func (m remembered[T]) read(into *T, value gjson.Result) error {
	if v, ok := m[value.Raw]; ok {
		*into = v
		return nil
	}
	if err := json.Unmarshal([]byte(value.Raw), into); err != nil {
		return err
	}
	if len(m) < mostRemembered {
		m[strings.Clone(value.Raw)] = *into
	}
	return nil
}

// brief reads what of results lists need. For one goroutine.
type brief struct {
	agents    remembered[trials.AgentConfig]
	tasks     remembered[trials.TaskConfig]
	infos     remembered[trials.AgentInfo]
	verdicts  remembered[*trials.VerifierResult]
	overrides remembered[trials.Object[trials.ErrorPolicyOverride]]
}

func newBrief() *brief {
	return &brief{
		agents: map[string]trials.AgentConfig{}, tasks: map[string]trials.TaskConfig{}, infos: map[string]trials.AgentInfo{},
		verdicts:  map[string]*trials.VerifierResult{},
		overrides: map[string]trials.Object[trials.ErrorPolicyOverride]{},
	}
}

// parse implements parser.
func (p *brief) parse(b []byte, name string) (*trials.Result, error) {
	r := &trials.Result{}
	err := members(b, func(key string, value gjson.Result) error { return p.member(r, key, value) })
	switch {
	case err != nil:
	case r.TrialName == "":
		err = errors.New("it is no trial's result: trial_name is missing")
	case r.FinishedAt == nil:
		err = errors.New("finished_at is missing")
	}
	if err != nil {
		return nil, wrapUnreadable(name, err)
	}
	fillPolicy(r)
	return r, nil
}

// parts are the members of an object that are taken, with where they go.
type parts[T any] map[string]func(*T) any

func (m parts[T]) take(into *T, key string, value gjson.Result) error {
	to, ok := m[key]
	if !ok || value.Type == gjson.Null {
		return nil
	}
	switch at := to(into).(type) {
	case *string:
		if value.Type == gjson.String && isPlain(value.Raw) {
			*at = strings.Clone(value.Str)
			return nil
		}
		return json.Unmarshal([]byte(value.Raw), at)
	case **trials.Time:
		*at = &trials.Time{}
		return (*at).UnmarshalJSON([]byte(value.Raw))
	default:
		return json.Unmarshal([]byte(value.Raw), at)
	}
}

// isPlain reports whether a string means what it looks like.
func isPlain(s string) bool { return !strings.Contains(s, "\\") && utf8.ValidString(s) }

var resultParts = parts[trials.Result]{
	"schema_version":            func(r *trials.Result) any { return &r.SchemaVersion },
	"id":                        func(r *trials.Result) any { return &r.ID },
	"task_name":                 func(r *trials.Result) any { return &r.TaskName },
	"trial_name":                func(r *trials.Result) any { return &r.TrialName },
	"trial_uri":                 func(r *trials.Result) any { return &r.TrialURI },
	"source":                    func(r *trials.Result) any { return &r.Source },
	"task_checksum":             func(r *trials.Result) any { return &r.TaskChecksum },
	"verifier_environment_mode": func(r *trials.Result) any { return &r.VerifierEnvironmentMode },
	"exception_info":            func(r *trials.Result) any { return &r.ExceptionInfo },
	"started_at":                func(r *trials.Result) any { return &r.StartedAt },
	"finished_at":               func(r *trials.Result) any { return &r.FinishedAt },
	"environment_setup":         func(r *trials.Result) any { return &r.EnvironmentSetup },
	"agent_setup":               func(r *trials.Result) any { return &r.AgentSetup },
	"agent_execution":           func(r *trials.Result) any { return &r.AgentExecution },
	"verifier":                  func(r *trials.Result) any { return &r.Verifier },
	"reward_valid":              func(r *trials.Result) any { return &r.RewardValid },
}

var configParts = parts[trials.TrialConfig]{
	"trial_name":   func(c *trials.TrialConfig) any { return &c.TrialName },
	"trials_dir":   func(c *trials.TrialConfig) any { return &c.TrialsDir },
	"install_only": func(c *trials.TrialConfig) any { return &c.InstallOnly },
	"job_id":       func(c *trials.TrialConfig) any { return &c.JobID },
}

var extraParts = parts[trials.Extra]{
	"provider":           func(x *trials.Extra) any { return &x.Provider },
	"attempt":            func(x *trials.Extra) any { return &x.Attempt },
	"try":                func(x *trials.Extra) any { return &x.Try },
	"retries":            func(x *trials.Extra) any { return &x.Retries },
	"failure":            func(x *trials.Extra) any { return &x.Failure },
	"suspect":            func(x *trials.Extra) any { return &x.Suspect },
	"wait_sec":           func(x *trials.Extra) any { return &x.WaitSec },
	"snapshot_sec":       func(x *trials.Extra) any { return &x.SnapshotSec },
	"snapshot_queue_sec": func(x *trials.Extra) any { return &x.SnapshotQueueSec },
	"metered":            func(x *trials.Extra) any { return &x.Metered },
	"task_digest":        func(x *trials.Extra) any { return &x.TaskDigest },
}

func (p *brief) member(r *trials.Result, key string, value gjson.Result) error {
	switch key {
	case "config":
		return each(value, func(key string, value gjson.Result) error { return p.config(&r.Config, key, value) })
	case "agent_info":
		return p.infos.read(&r.AgentInfo, value)
	case "agent_result":
		return p.usage(r, value)
	case "verifier_result":
		return p.verdicts.read(&r.VerifierResult, value)
	case "harborgate":
		r.Harborgate = &trials.Extra{}
		return each(value, func(key string, value gjson.Result) error { return extraParts.take(r.Harborgate, key, value) })
	}
	return resultParts.take(r, key, value)
}

func (p *brief) config(c *trials.TrialConfig, key string, value gjson.Result) error {
	switch key {
	case "agent":
		return p.agents.read(&c.Agent, value)
	case "task":
		return p.tasks.read(&c.Task, value)
	case "override_error_policy":
		return p.overrides.read(&c.OverrideErrorPolicy, value)
	}
	return configParts.take(c, key, value)
}

// usage leaves rollouts out, which may be large.
func (p *brief) usage(r *trials.Result, value gjson.Result) error {
	if value.Type == gjson.Null {
		return nil
	}
	var sum trials.Usage
	err := each(value, func(key string, value gjson.Result) error { return usageParts.take(&sum, key, value) })
	r.AgentResult = &trials.AgentResult{Usage: sum}
	return err
}

var usageParts = parts[trials.Usage]{
	"n_input_tokens":  func(u *trials.Usage) any { return &u.InputTokens },
	"n_cache_tokens":  func(u *trials.Usage) any { return &u.CacheTokens },
	"n_output_tokens": func(u *trials.Usage) any { return &u.OutputTokens },
	"cost_usd":        func(u *trials.Usage) any { return &u.CostUSD },
}
