package app

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"harborgate/configs"
	"harborgate/providers/docker"
)

// Option is something that can be said to a provider.
type Option struct {
	Name    string `json:"name"`
	Where   string `json:"where"` // "--ek", or the path in config.yaml
	Type    string `json:"type"`  // of JSON
	Unit    string `json:"unit,omitempty"`
	Default string `json:"default,omitempty"` // as it would be written; "" is none
	Doc     string `json:"doc"`
}

// dockerOptions are those of config.yaml.
type dockerOptions struct {
	Host    string `json:"host" doc:"address of the engine, unix:///… or tcp://…; else that of DOCKER_HOST or of the context"`
	Context string `json:"context" doc:"context of the docker command to take the address from"`
	TLSDir  string `json:"tls_dir" doc:"directory with ca.pem, cert.pem and key.pem"`
}

// fakeOptions are those of config.yaml.
type fakeOptions struct {
	CreateSec float64 `json:"create_sec" unit:"s" default:"0" doc:"how long a sandbox takes to start"`
	ExecSec   float64 `json:"exec_sec" unit:"s" default:"0" doc:"how long a command takes at least"`

	FaultPercent float64 `json:"fault_percent" unit:"%" default:"0" doc:"calls that misbehave at random"`
	FaultSeed    int64   `json:"fault_seed" default:"0" doc:"makes them the same again"`

	Simulate   string `json:"simulate" doc:"file that says what limits, rates, latencies and faults this provider has; a relative path is beside config.yaml"`
	SimulateAt string `json:"simulate_at" doc:"unix:/path or http://host:port of a harbor-sim provider, which several processes may share"`
}

// providerOptions are the blocks that drivers decode, by type.
var providerOptions = map[string]any{docker.Type: dockerOptions{}, "fake": fakeOptions{}}

// trialOptions are what --ek takes on every provider; the runner reads them.
var trialOptions = []Option{
	{Name: "auto_mounting", Where: "--ek", Type: "boolean", Default: "false", Doc: "mount the log directories from the host instead of copying them"},
	{Name: "keep_agent_processes", Where: "--ek", Type: "boolean", Default: "false", Doc: "let what the agent started go on while the tests run"},
}

// limitDocs describe what config.yaml can limit. Without a default there is no limit.
var limitDocs = map[string]struct{ unit, standard, doc string }{
	"sandboxes":       {"", "", "sandboxes at once"},
	"builds":          {"", "2", "images that a job builds at once"},
	"cpus":            {"cores", "", "CPU cores that trials may declare together; else those of the host, where they are known"},
	"overcommit_cpus": {"", "1", "how many times the cores may be declared together; a note in the result says so"},
	"memory_mb":       {"MiB", "", "memory that trials may declare together; else that of the host, where it is known"},
	"disk_mb":         {"MiB", "", "disk that trials may declare together"},
	"gpus":            {"", "", "GPUs that trials may declare together"},
	"creates_per_sec": {"1/s", "", "sandboxes made in a second"},
	"create_burst":    {"", "1", "sandboxes that the provider bears at once within that rate; half as many are made"},
	"deletes_per_sec": {"1/s", "", "sandboxes removed in a second"},
	"reads_per_sec":   {"1/s", "", "lists and checks in a second"},
	"execs_per_sec":   {"1/s", "", "commands and transfers in a second, where those are calls to the provider"},
	"calls_per_sec":   {"1/s", "", "creates, removals, lists and checks in a second"},
	"outage_sec":      {"s", "300", "how long a job waits for a provider that went away before it stops"},
}

// ProviderOptions lists what can be said to a provider: on the command line, then its
// own options and limits in config.yaml.
func (a *App) ProviderOptions(name string) ([]Option, error) {
	typ := a.Host.Providers[name].Type
	if typ == "" {
		typ = name
	}
	own, ok := providerOptions[typ]
	if !ok {
		return nil, a.unknown(name, typ)
	}
	out := slices.Clone(trialOptions)
	for _, o := range structOptions(own) {
		o.Where = "providers." + name + ".options"
		out = append(out, o)
	}
	for _, o := range structOptions(configs.Limits{}) {
		d := limitDocs[o.Name]
		o.Where, o.Unit, o.Default, o.Doc = "providers."+name+".limits", d.unit, d.standard, d.doc
		out = append(out, o)
	}
	return out, nil
}

// structOptions reads the tags of a struct of options.
func structOptions(v any) []Option {
	var out []Option
	t := reflect.TypeOf(v)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, Option{Name: name, Type: jsonType(f.Type), Unit: f.Tag.Get("unit"), Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc")})
	}
	return out
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	panic(fmt.Sprintf("option of type %s", t)) // options are of the kinds above
}
