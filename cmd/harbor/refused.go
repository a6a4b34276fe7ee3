package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// refusedFlags are flags that users of Harbor know and that do nothing here yet.
// They are never ignored: each says why, and what to do.
var refusedFlags = []struct {
	name, short string
	boolean     bool
	why         string
}{
	{"dataset", "d", false, "data sets from a registry are not supported yet; download it and give the directory with -p"},
	{"task", "t", false, "package tasks are not supported yet; download it and give the directory with -p"},
	{"repo", "", false, "git data sets are not supported yet; clone it and give the directory with -p"},
	{"registry-url", "", false, "registries are not supported yet; give a directory with -p"},
	{"registry-path", "", false, "registries are not supported yet; give a directory with -p"},
	{"task-git-url", "", false, "git tasks are not supported yet; clone the repository and give the directory with -p"},
	{"task-git-commit", "", false, "git tasks are not supported yet; clone the repository and give the directory with -p"},
	{"resume-trajectory", "", true, "sessions cannot be resumed yet"},
	{"load-trajectory", "", false, "trajectories cannot be loaded yet"},
	{"allow-agent-host", "", false, "allow lists are not built yet; use network_mode public or no-network"},
	{"allow-environment-host", "", false, "allow lists are not built yet; use network_mode public or no-network"},
	{"allow-verifier-host", "", false, "allow lists are not built yet; use network_mode public or no-network"},
	{"skip-model-parsing-and-provider-mapping", "", true, "model names are always split at the first slash"},
	{"sm", "", true, "model names are always split at the first slash"},
	{"user-agent", "", false, "simulated users are not built"},
	{"user-model", "", false, "simulated users are not built"},
	{"uk", "", false, "simulated users are not built"},
	{"user-persona-path", "", false, "simulated users are not built"},
	{"user-prompt-template-path", "", false, "simulated users are not built"},
	{"bridge", "", false, "simulated users are not built"},
	{"bridge-prompt-path", "", false, "simulated users are not built"},
	{"bk", "", false, "simulated users are not built"},
	{"stream", "", true, "SSH into sandboxes is not built"},
	{"override-tpu", "", false, "TPUs are not supported"},
	{"extra-docker-compose", "", false, "compose is not built yet"},
	{"verifier", "", false, "custom verifiers are Python classes and cannot be loaded; use tests/test.sh"},
	{"verifier-kwarg", "", false, "custom verifiers are Python classes and cannot be loaded; use tests/test.sh"},
	{"verifier-import-path", "", false, "custom verifiers are Python classes and cannot be loaded; use tests/test.sh"},
	{"plugin", "", false, "plugins are Python classes and cannot be loaded"},
	{"pk", "", false, "plugins are Python classes and cannot be loaded"},
	{"upload", "", true, "there is no hosted service behind this program"},
	{"launch", "", true, "there is no hosted service behind this program"},
	{"public", "", true, "there is no hosted service behind this program"},
	{"private", "", true, "there is no hosted service behind this program"},
	{"share", "", false, "there is no hosted service behind this program"},
	{"share-user", "", false, "there is no hosted service behind this program"},
	{"org", "", false, "there is no hosted service behind this program"},
	{"server", "", false, "running on a server is not built yet"},
	{"watch", "", true, "running on a server is not built yet"},
	{"export-traces", "", true, "traces are not exported; trajectories stay in the trial directories"},
	{"export-sharegpt", "", true, "traces are not exported; trajectories stay in the trial directories"},
	{"export-episodes", "", false, "traces are not exported; trajectories stay in the trial directories"},
	{"export-push", "", true, "traces are not exported; trajectories stay in the trial directories"},
	{"export-repo", "", false, "traces are not exported; trajectories stay in the trial directories"},
	{"export-instruction-metadata", "", true, "traces are not exported; trajectories stay in the trial directories"},
	{"export-verifier-metadata", "", true, "traces are not exported; trajectories stay in the trial directories"},
	{"use-static-ip", "", true, "there is no hosted service behind this program"},
	{"credential-mode", "", false, "there is no hosted service behind this program"},
	{"one-off-secret", "", false, "there is no hosted service behind this program"},
	{"stored-secret", "", false, "there is no hosted service behind this program"},
	{"no-secrets", "", true, "there is no hosted service behind this program"},
	{"registry-secret", "", false, "there is no hosted service behind this program"},
}

// removedFlags had a meaning in old versions of Harbor. They are accepted with a
// warning, because they change nothing about a result.
var removedFlags = []struct {
	name string
	why  string
}{
	{"orchestrator", "there is one scheduler; -n sets how many trials run at once"},
	{"orchestrator-kwarg", "there is one scheduler; -n sets how many trials run at once"},
	{"ok", "there is one scheduler; -n sets how many trials run at once"},
}

// refused is the value of a flag that must not be used.
type refused struct {
	name, why string
	boolean   bool
}

func (r refused) String() string   { return "" }
func (r refused) IsBoolFlag() bool { return r.boolean }

func (r refused) Type() string {
	if r.boolean {
		return "bool"
	}
	return "string"
}

// errRefused marks what is understood and not done.
type refusedError struct{ name, why string }

func (e refusedError) Error() string { return fmt.Sprintf("--%s: %s", e.name, e.why) }

func (r refused) Set(string) error { return refusedError{r.name, r.why} }

func addRefused(s *pflag.FlagSet) {
	for _, r := range refusedFlags {
		f := &pflag.Flag{Name: r.name, Shorthand: r.short, Usage: "not supported: " + r.why, Hidden: true, Value: refused{r.name, r.why, r.boolean}}
		if r.boolean {
			f.NoOptDefVal = "true"
		}
		s.AddFlag(f)
	}
	for _, r := range removedFlags {
		s.String(r.name, "", "accepted and ignored: "+r.why)
		s.Lookup(r.name).Hidden = true
	}
}

// warnRemoved says what was ignored.
func warnRemoved(e *env, s *pflag.FlagSet) {
	for _, r := range removedFlags {
		if given(s, r.name) {
			fmt.Fprintf(e.err, "harbor: --%s is ignored: %s\n", r.name, r.why)
		}
	}
}
