package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"harborgate/agents/packages"
	"harborgate/providers"
	"harborgate/trials"
)

// BundleDir is where an agent's package is inside a sandbox, read-only.
const BundleDir = "/opt/harborgate/agent"

// Bundled is an agent whose programs come from this host.
type Bundled interface {
	// Bundle is the package for sandboxes of an architecture, as Go names it.
	Bundle(arch string) (packages.Package, error)
}

// facts are what there is to know about an installed agent: an unmodified program
// of somebody else.
type facts struct {
	name, doc string
	version   string            // pinned
	dialects  []string          // that it speaks
	specs     map[string]source // packages of the pinned version by architecture
	log       string            // file of its output
	dir       string            // below its logs, made before it starts; "" is none
	options   []Option
	// command starts the agent; pure.
	command func(j job) providers.Command
	// outcome reads the agent's output.
	outcome func() outcome
}

// source is where a package is in npm's registry. A %s in spec is the version.
type source struct{ spec, integrity, below string }

// job is what an agent is started for.
type job struct {
	Instruction string
	Base        string // of its upstream, as its dialect's clients want it
	Token       string
	Model       string // the upstream's name for it
	LogsDir     string
	Options     map[string]string
}

// outcome makes sense of an agent's output, line by line.
type outcome interface {
	line(b []byte)
	// result is what the agent claims; failure is "" when it says that it is done.
	result() (usage trials.AgentResult, failure string)
}

// installed runs an agent of which there are facts.
type installed struct {
	facts facts
	model *trials.ModelInfo
	kw    map[string]string
}

// kind makes a row of the registry.
func (f facts) kind() Kind {
	options := append(slices.Clone(f.options), Option{Name: "version", Doc: "version to fetch instead of the pinned one, as the registry has it", Default: f.version})
	return Kind{
		Name: f.name, Doc: f.doc, Options: options, Thinks: true, Dialects: f.dialects,
		make: func(in Input, kw map[string]string) (Agent, error) {
			if in.Config.ModelName == nil {
				return nil, fmt.Errorf("agent %s needs a model: add -m %s/…", f.name, f.dialects[0])
			}
			return &installed{facts: f, model: modelInfo(in.Config), kw: kw}, nil
		},
	}
}

// Info implements Agent.
func (a *installed) Info() trials.AgentInfo {
	return trials.AgentInfo{Name: a.facts.name, Version: a.kw["version"], ModelInfo: a.model}
}

// Bundle implements Bundled. A version that is not the pinned one has no pinned
// digest: there the registry's own has to do, which npm checks.
func (a *installed) Bundle(arch string) (packages.Package, error) {
	s, ok := a.facts.specs[arch]
	if !ok {
		return packages.Package{}, fmt.Errorf("agent %s has no package for %s, there is one for %s", a.facts.name, arch, strings.Join(slices.Sorted(maps.Keys(a.facts.specs)), ", "))
	}
	p := packages.Package{Name: a.facts.name + "-" + arch, Version: a.kw["version"], Spec: fmt.Sprintf(s.spec, a.kw["version"]), Below: s.below}
	if p.Version == a.facts.version {
		p.Integrity = s.integrity
	}
	return p, nil
}

// Setup implements Agent: all but a directory is there.
func (a *installed) Setup(ctx context.Context, w *Workplace) error {
	if a.facts.dir == "" {
		return nil
	}
	status, err := w.Sandbox.Exec(ctx, providers.Command{Args: []string{"mkdir", "-p", w.LogsDir + "/" + a.facts.dir}, User: w.User})
	if err == nil && !status.OK() {
		err = fmt.Errorf("make the directory of agent %s: mkdir ended with %s", a.facts.name, status)
	}
	return err
}

// Run implements Agent.
func (a *installed) Run(ctx context.Context, w *Workplace) (*trials.AgentResult, error) {
	if w.Access == nil {
		return nil, trials.NewFailure(trials.PhaseAgentExecution, trials.CauseInvalidConfig, "", fmt.Sprintf(
			"agent %s has no way to a model: see docs/auth-proxy.md; it takes no keys (--pass-credentials)", a.facts.name))
	}
	up := w.Access.Upstreams[0]
	cmd := a.facts.command(job{
		Instruction: w.Instruction, Base: w.Access.Base(up), Token: w.Access.Token, Model: w.Access.Model, LogsDir: w.LogsDir, Options: a.kw,
	})
	log, err := w.Log.Open(a.facts.log)
	if err != nil {
		return nil, fmt.Errorf("open agent log: %w", err)
	}
	read := a.facts.outcome()
	said := &lines{to: read.line}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, said), log
	status, err := w.Start(ctx, cmd)
	err = errors.Join(err, log.Close())
	said.end()
	got, failure := read.result()
	if err == nil && !status.OK() && failure == "" {
		failure = fmt.Sprintf("it ended with %s", status)
	}
	if err == nil && failure != "" {
		err = trials.NewFailure(trials.PhaseAgentExecution, trials.CauseExit, "", fmt.Sprintf("%s: %s; its output is in agent/%s", a.facts.name, failure, a.facts.log))
	}
	return &got, err
}

// lines hands lines on, without those that are absurdly long.
type lines struct {
	to   func([]byte)
	buf  []byte
	skip bool // the line is too long
}

// longestLine is far more than an agent's summary of a run takes.
const longestLine = 4 << 20

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		if !l.skip && len(l.buf)+len(part) <= longestLine {
			l.buf = append(l.buf, part...)
		} else {
			l.skip, l.buf = true, l.buf[:0]
		}
		if p = rest; whole {
			l.end()
		}
	}
	return n, nil
}

// end hands on what is there as a line.
func (l *lines) end() {
	if len(l.buf) > 0 && !l.skip {
		l.to(l.buf)
	}
	l.buf, l.skip = l.buf[:0], false
}
