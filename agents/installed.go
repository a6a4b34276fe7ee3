package agents

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

// Where an agent's package and what it runs on are inside a sandbox, read-only.
const (
	bundleDir  = "/opt/harborgate/agent"
	runtimeDir = "/opt/harborgate/runtime"
)

// Part is a package and its directory inside a sandbox.
type Part struct {
	Dir string
	packages.Package
}

// Bundled is an agent whose programs come from this host.
type Bundled interface {
	// Bundle is what sandboxes of an architecture need, as Go names it.
	Bundle(arch string) ([]Part, error)
}

// facts are what there is to know about an installed agent: an unmodified program
// of somebody else.
type facts struct {
	name, doc string
	version   string // pinned
	// release is a version in full, where its registry takes others for the same; nil is
	// as it is.
	release  func(version string) string
	dialects []string // that it speaks
	searches bool     // it offers the provider's search to models
	bundle   func(arch, version string) ([]Part, error)
	// program is the name of its program in the bundle, where users may bring theirs in
	// place of the package; "" is where they may not.
	program string
	// probe starts its program to no end, and quickly.
	probe providers.Command
	glibc bool // its program wants that of the image
	home  bool // it wants its user's home directory
	// quirks are variables that change how its runtime starts, ways those that lead it
	// to other models than the auth proxy's. Only users may set the former, and nobody
	// the latter.
	quirks, ways []string
	// asks and misread are about names of models, as in Kind.
	asks    func(model string) string
	misread *regexp.Regexp
	log     string // file of its output
	dir     string // below its logs, made before it starts; "" is none
	options []Option
	// tools is set when files or command tell the agent of the job's MCP servers.
	tools bool
	// transports are those of MCP servers that it reaches; nil is all.
	transports []string
	// skills is where it looks for skills, "~/" being its user's home; nil is nowhere.
	skills func(home, logsDir string) string
	// files are settings that cannot be given otherwise, below the job's home; pure.
	// nil has none.
	files func(j job) (map[string]string, error)
	// command starts the agent; pure.
	command func(j job) providers.Command
	// report is a file below its logs in which the agent says how it went, as one
	// document. It is read in place of its output; "" has none.
	report string
	// exits are what its exit codes say that its output does not.
	exits map[int]string
	// outcome reads the agent's output, or its report.
	outcome func() outcome
	// steps reads a line of the same into its trajectory; nil has none.
	steps func(r *atif.Run) func(line []byte)
}

// job is what an agent is started for.
type job struct {
	Instruction string
	Route       string // of its upstream, without a version
	Base        string // the same, as its dialect's clients want it
	Dialect     string // of the upstream
	Format      string // that was asked for, of Formats; "" leaves it to the agent
	Token       string
	Model       string // the upstream's name for it
	Home        string // of its settings; nobody collects it, only its user may read it
	LogsDir     string
	Options     map[string]string
	Tools       []settings.Tool // MCP servers
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

	there  bool   // the programs are
	report []byte // of its run
	tools  []settings.Tool
	skills []string // directories of this host
}

// kind makes a row of the registry.
func (f facts) kind() Kind {
	options := append(slices.Clone(f.options), installOption, Option{Name: "version", Doc: "version to fetch instead of the pinned one, as the registry has it", Default: f.version})
	if f.program != "" {
		options = append(options, binaryOption)
	}
	return Kind{
		Name: f.name, Doc: f.doc, Options: options, Thinks: true, Dialects: f.dialects,
		Tools: f.tools, Skills: f.skills != nil, Searches: f.searches, ways: f.ways, asks: f.asks, misread: f.misread, layer: f.layer,
		make: func(in Input, kw map[string]string) (Agent, error) {
			if modelInfo(in.Config) == nil {
				return nil, fmt.Errorf("agent %s needs a model: add -m %s/…", f.name, f.dialects[0])
			}
			kw["version"] = f.number(kw["version"])
			f, err := f.brought(in.Config.Kwargs, kw)
			if err != nil {
				return nil, err
			}
			tools := toolsOf(in.Tools)
			if err := errors.Join(f.readFiles(kw), f.checkTransports(tools), checkSkills(in.Config.Skills)); err != nil {
				return nil, err
			}
			return &installed{facts: f, model: modelInfo(in.Config), kw: kw, tools: tools, skills: in.Config.Skills}, nil
		},
	}
}

// versions are what registries number their packages with. It is also a part of
// directories' names, and of what registries' clients are asked for: what they would
// take for a path, an address or an option is none.
var versions = regexp.MustCompile(`^[0-9][0-9A-Za-z.+-]{0,63}$`)

// number is the version that was asked for: none is the pinned one, and what names the
// same release is the same.
func (f facts) number(version string) string {
	version = cmp.Or(version, f.version)
	if f.release != nil {
		version = f.release(version)
	}
	return version
}

func (f facts) checkVersion(v string) error {
	if versions.MatchString(v) {
		return nil
	}
	return fmt.Errorf("agent %s: option version=%q is no version: write its number, like %s (`npm view PACKAGE version` and `pip index versions PACKAGE` show it)", f.name, v, f.version)
}

// readFiles puts what files say in place of their names.
func (f facts) readFiles(kw map[string]string) error {
	for _, o := range f.options {
		if !o.File || kw[o.Name] == "" {
			continue
		}
		text, err := os.ReadFile(kw[o.Name])
		if err != nil {
			return fmt.Errorf("agent %s: option %s: %w", f.name, o.Name, err)
		}
		kw[o.Name] = string(text)
	}
	return nil
}

// Info implements Agent.
func (a *installed) Info() trials.AgentInfo {
	version := a.kw["version"]
	if a.kw["install"] == inside && !a.there { // nobody knows whether there is such a version
		version = unknownVersion
	}
	return trials.AgentInfo{Name: a.facts.name, Version: cmp.Or(version, unknownVersion), ModelInfo: a.model}
}

// Bundle implements Bundled.
func (a *installed) Bundle(arch string) ([]Part, error) {
	if a.kw["install"] == inside {
		return nil, nil
	}
	return a.facts.bundle(arch, a.kw["version"])
}

// Setup implements Agent: all but directories and skills is there.
func (a *installed) Setup(ctx context.Context, w *Workplace) error {
	if a.kw["install"] == inside && !w.Installed {
		if err := a.install(ctx, w); err != nil {
			return err
		}
	}
	a.there = true
	for _, step := range []func(context.Context, *Workplace) error{a.starts, a.identify, a.settled, a.bringSkills} {
		if err := step(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// Run implements Agent.
func (a *installed) Run(ctx context.Context, w *Workplace) (*trials.AgentResult, error) {
	if w.Access == nil {
		return nil, trials.NewFailure(trials.PhaseAgentExecution, trials.CauseInvalidConfig, "", fmt.Sprintf(
			"agent %s has no way to a model: see docs/auth-proxy.md; it takes no keys (--pass-credentials)", a.facts.name))
	}
	up := w.Access.Upstreams[0]
	j := job{
		Instruction: w.Instruction, Route: w.Access.URL + "/" + up.Name, Base: w.Access.Base(up), Dialect: up.Dialect, Format: up.Format, Token: w.Access.Token, Model: w.Access.Model,
		Home: a.home(), LogsDir: w.LogsDir, Options: a.kw, Tools: a.tools,
	}
	if err := a.settle(ctx, w, j); err != nil {
		return nil, err
	}
	got, err := a.work(ctx, w, a.facts.shielded(a.facts.command(j)))
	if a.facts.steps != nil {
		if err := a.record(w, got); err != nil {
			w.Note("no_trajectory", err.Error())
		}
	}
	return got, err
}

// home is where its settings are.
func (a *installed) home() string { return "/tmp/.harborgate/" + a.facts.name }

// settle writes the agent's settings, for its user alone.
func (a *installed) settle(ctx context.Context, w *Workplace, j job) error {
	if a.facts.files == nil {
		return nil
	}
	files, err := a.facts.files(j)
	if err != nil {
		return fmt.Errorf("settings of agent %s: %w", a.facts.name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		const script = `umask 077; mkdir -p "${1%/*}" && cat >"$1"`
		path := j.Home + "/" + name
		status, err := w.Sandbox.Exec(ctx, providers.Command{
			Args: []string{"sh", "-c", script, "sh", path}, User: w.User, Stdin: strings.NewReader(files[name]),
		})
		if err != nil {
			return fmt.Errorf("settings of agent %s: %w", a.facts.name, err)
		}
		if !status.OK() {
			return a.unready("cannot write its settings: %s ended with %s: is the sandbox's disk full?", path, status)
		}
	}
	return nil
}

// work runs the agent to its end.
func (a *installed) work(ctx context.Context, w *Workplace, cmd providers.Command) (*trials.AgentResult, error) {
	log, err := w.Log.Open(a.facts.log)
	if err != nil {
		return nil, fmt.Errorf("open agent log: %w", err)
	}
	read := a.facts.outcome()
	said := &lines{to: read.line}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, said), log
	if a.facts.report != "" {
		cmd.Stdout = log
	}
	status, err := w.Start(ctx, cmd)
	err = errors.Join(err, log.Close())
	said.end()
	if a.facts.report != "" {
		a.report = fetchReport(ctx, w, w.LogsDir+"/"+a.facts.report)
		read.line(a.report)
	}
	got, failure := read.result()
	if err == nil && !status.OK() {
		failure = cmp.Or(a.facts.exits[status.Code], failure, fmt.Sprintf("it ended with %s", status))
	}
	if err == nil && failure != "" {
		err = trials.NewFailure(trials.PhaseAgentExecution, trials.CauseExit, "", fmt.Sprintf("%s: %s; its output is in agent/%s", a.facts.name, failure, a.facts.log))
	}
	return &got, err
}

// trajectoryFile is where Harbor's tools look for a trajectory.
const trajectoryFile = "trajectory.json"

// record writes what the agent did as a trajectory, of a run that was cut short too.
// The output is read again: nobody has to hold it while the agent works.
func (a *installed) record(w *Workplace, claimed *trials.AgentResult) (err error) {
	var run atif.Run
	run.Add(atif.Step{Source: atif.User, Message: w.Instruction})
	if err := a.tell(w, a.facts.steps(&run)); err != nil {
		return err
	}
	sum := atif.Metrics{}
	if claimed != nil {
		sum = atif.Metrics{Prompt: claimed.InputTokens, Completion: claimed.OutputTokens, Cached: claimed.CacheTokens, CostUSD: claimed.CostUSD}
	}
	t := run.Trajectory(atif.Agent{Name: a.facts.name, Version: a.kw["version"], Model: a.model.Name}, sum)
	out, err := w.Log.Open(trajectoryFile)
	if err != nil {
		return err
	}
	return errors.Join(t.Write(out), out.Close())
}

// tell hands on what the agent said of its run.
func (a *installed) tell(w *Workplace, to func([]byte)) error {
	if a.facts.report != "" {
		to(a.report)
		return nil
	}
	log, err := w.Log.Read(a.facts.log)
	if err != nil {
		return err
	}
	defer log.Close()
	said := &lines{to: to}
	_, err = io.Copy(said, log)
	said.end()
	return err
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
