package agents

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"harborgate/providers"
	"harborgate/trials"
)

// nodeVariables and bunVariables change how a runtime starts every program. An image
// sets them for programs of its own: whoever wants them for the agent says so (--ae).
func nodeVariables() []string { return []string{"NODE_OPTIONS", "NODE_ICU_DATA"} }
func bunVariables() []string  { return []string{"BUN_OPTIONS", "BUN_BE_BUN", "BUN_INSPECT"} }

// pythonVariables end an agent of ours with a proxy that its libraries cannot use,
// whether or not it would be used.
func pythonVariables() []string { return []string{"ALL_PROXY", "all_proxy"} }

// emptied are variables without a value: programs take that for not set.
func emptied(names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = ""
	}
	return out
}

// shielded is a command of the agent without what the image, or the task, says about
// its runtime and about other ways to models.
func (f facts) shielded(c providers.Command) providers.Command {
	env, secret := emptied(f.quirks), emptied(f.ways)
	maps.Copy(env, c.Env)
	maps.Copy(secret, c.SecretEnv)
	c.Env, c.SecretEnv = env, secret
	return c
}

// unready is a sandbox in which the agent cannot work, which is nothing that it did.
func (a *installed) unready(format string, args ...any) error {
	return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseExit, "", fmt.Sprintf("agent %s "+format, append([]any{a.facts.name}, args...)...))
}

// try runs a command of ours as the agent's user; said is the end of what it printed.
func (a *installed) try(ctx context.Context, w *Workplace, c providers.Command) (said string, status providers.ExitStatus, err error) {
	var out tail
	c = a.facts.shielded(c)
	env := maps.Clone(w.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.SecretEnv)
	c.SecretEnv, c.User, c.Stdout, c.Stderr, c.KillLeftovers = env, w.User, &out, &out, true
	status, err = w.Sandbox.Exec(ctx, c)
	return strings.TrimSpace(string(out.b)), status, err
}

// libcTrouble is what loaders say where there is another libc than a program wants.
var libcTrouble = regexp.MustCompile(`GLIBC_|ld-linux|Error relocating|libc\.so`)

// starts has the agent's program show that it can be started here: one that cannot is
// not the agent's failure.
func (a *installed) starts(ctx context.Context, w *Workplace) error {
	said, status, err := a.try(ctx, w, a.facts.probe)
	if err != nil || status.OK() {
		return err
	}
	program := a.facts.probe.Args[0]
	const notFound = 127
	switch missing, err := a.missing(ctx, w, program); {
	case err != nil:
		return err
	case missing:
		return a.unready("cannot be started: its package lacks %s; delete the package's directory in the cache of agents to have it fetched again", program)
	case a.facts.glibc && (status.Code == notFound || libcTrouble.MatchString(said)):
		return a.unready("cannot be started: its program wants glibc, which the image lacks (%s); choose an image with glibc, or an agent that wants none: codex, mini-swe-agent, aider", said)
	}
	return a.unready("cannot be started: %s ended with %s: %s", strings.Join(a.facts.probe.Args, " "), status, said)
}

// missing reports whether a file is not there, without any program of the image.
func (a *installed) missing(ctx context.Context, w *Workplace, path string) (bool, error) {
	r, err := w.Sandbox.Download(ctx, path)
	if err == nil {
		_, err = r.Read(make([]byte, 1))
		_ = r.Close() // of what was not read to its end
	}
	if providers.Is(err, providers.KindNotFound) {
		return true, nil
	}
	return false, err
}

// settled finds out whether the agent's user has the directories that the agent keeps
// its things in.
func (a *installed) settled(ctx context.Context, w *Workplace) error {
	for _, dir := range []struct {
		wanted         bool
		script, arg    string // which ends with a status, and says which directory
		lacks, instead string
	}{
		{
			a.facts.home, `[ -d "$HOME" ] || { echo "$HOME"; exit 1; }`, "",
			"wants its user's home directory, which does not exist", "make it in the image (useradd -m)",
		},
		{
			a.facts.files != nil, `umask 077; mkdir -p "$1" && [ -w "$1" ] || { echo "$1"; exit 1; }`, a.home(),
			"cannot write its settings", "let the agent's user write below /tmp, and leave /tmp/.harborgate to it",
		},
		{a.facts.dir != "", `mkdir -p "$1"`, w.LogsDir + "/" + a.facts.dir, "cannot write its logs", "let the agent's user write there"},
	} {
		if !dir.wanted {
			continue
		}
		said, status, err := a.try(ctx, w, providers.Command{Args: []string{"sh", "-c", dir.script, "sh", dir.arg}})
		if err != nil {
			return err
		}
		if !status.OK() {
			return a.unready("%s: %s: %s", dir.lacks, strings.ReplaceAll(said, "\n", ": "), dir.instead)
		}
	}
	return nil
}
