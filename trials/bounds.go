package trials

import (
	"math"
	"reflect"
	"slices"
	"strings"
)

// Bound is what a key of a configuration takes, beyond its type.
type Bound struct {
	Values   []string // a closed list
	Least    *float64
	Positive bool
}

func oneOf(values ...string) Bound { return Bound{Values: values} }
func least(x float64) Bound        { return Bound{Least: &x} }
func positiveOnly() Bound          { return Bound{Positive: true} }

// bounds are of types and keys. Validate goes by them, and so do schemas.
var bounds = map[string]Bound{
	"JobConfig.n_attempts":                             least(1),
	"JobConfig.n_concurrent_trials":                    least(1),
	"Multipliers.timeout_multiplier":                   positiveOnly(),
	"Multipliers.agent_timeout_multiplier":             positiveOnly(),
	"Multipliers.verifier_timeout_multiplier":          positiveOnly(),
	"Multipliers.agent_setup_timeout_multiplier":       positiveOnly(),
	"Multipliers.environment_build_timeout_multiplier": positiveOnly(),
	"RetryConfig.max_retries":                          least(0),
	"RetryConfig.wait_multiplier":                      positiveOnly(),
	"RetryConfig.min_wait_sec":                         least(0),
	"RetryConfig.max_wait_sec":                         least(0),
	"EnvironmentConfig.cpu_enforcement_policy":         oneOf("auto", "limit", "request", "guarantee", "ignore"),
	"EnvironmentConfig.memory_enforcement_policy":      oneOf("auto", "limit", "request", "guarantee", "ignore"),
	"EnvironmentConfig.override_cpus":                  positiveOnly(),
	"EnvironmentConfig.override_memory_mb":             least(1),
	"EnvironmentConfig.override_storage_mb":            least(1),
	"EnvironmentConfig.override_gpus":                  least(0),
	"VolumeConfig.type":                                oneOf("bind", "volume", "image"),
	"VerifierConfig.override_timeout_sec":              least(0),
	"VerifierConfig.max_timeout_sec":                   least(0),
	"AgentConfig.override_timeout_sec":                 least(0),
	"AgentConfig.override_setup_timeout_sec":           least(0),
	"AgentConfig.max_timeout_sec":                      least(0),
	"AgentConfig.n_concurrent":                         least(1),
	"AgentConfig.model_api_format":                     oneOf("openai_chat_completions", "openai_responses", "anthropic_messages", "google_generate_content", "bedrock_converse"),
	"MCPServerConfig.transport":                        oneOf("stdio", "sse", "streamable-http"),
	"MetricConfig.type":                                oneOf("sum", "min", "max", "mean", "uv-script"),
	"DatasetConfig.n_tasks":                            least(1),
	"SourceJob.action":                                 oneOf("regrade", "diff"),
	"SourceJob.type":                                   oneOf("local", "hub"),
}

// BoundOf returns the bound of a key of a configuration's type, for schemas.
// Embedded types are looked into.
func BoundOf(t reflect.Type, key string) (Bound, bool) {
	if b, ok := bounds[t.Name()+"."+key]; ok {
		return b, true
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Type.Kind() == reflect.Struct {
			if b, ok := BoundOf(f.Type, key); ok {
				return b, true
			}
		}
	}
	return Bound{}, false
}

// word holds a word against the bound of a type and key.
func (e *fieldErrors) word(path, value, of string) {
	values := bounds[of].Values
	e.require(slices.Contains(values, value), path, "%q is not one of %s", value, strings.Join(values, ", "))
}

// within holds a number against the bound of a type and key; nil is not given.
func within[T ~int | ~int64 | ~float64](e *fieldErrors, path string, value *T, of string) {
	if value == nil {
		return
	}
	x, b := float64(*value), bounds[of]
	if math.IsNaN(x) || math.IsInf(x, 0) {
		e.require(false, path, "%v is not a finite number", x)
		return
	}
	e.require(b.Least == nil || x >= deref(b.Least), path, "%v is less than %v", x, deref(b.Least))
	e.require(!b.Positive || x > 0, path, "%v is not a positive number", x)
}
