package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"harborgate/agents"
	"harborgate/providers"
	"harborgate/trials"
)

// streamed are the agent's files that the host wrote while the agent ran; what
// the sandbox says about them does not count.
type streamed struct {
	sink  Sink
	names []string
}

// Open makes agent logs go to the trial's directory as they come.
func (s *streamed) Open(name string) (io.WriteCloser, error) {
	s.names = append(s.names, name)
	return s.sink.Stream("agent/" + name)
}

// Read implements agents.Log. Where the directory is mounted, the sandbox may have put
// anything in a file's place.
func (s *streamed) Read(name string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(s.sink.Path("agent"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("agent/%s is no longer a file", name), err, f.Close())
	}
	return f, nil
}

// agentGrace is what an agent has to save its work when its time is over. What it
// wrote by then is there when it is graded.
const agentGrace = 5 * time.Second

func (x *run) workplace() *agents.Workplace {
	return &agents.Workplace{
		Sandbox: x.sandbox, Task: x.t.Task, Instruction: x.instruction,
		User: x.t.Task.Config.Agent.User, Env: mergeEnv(x.env.secret, x.env.agent),
		Log: x.streamed, LogsDir: agentDir, KeepProcesses: x.kwargs.keepAgentProcesses, Note: x.note,
		Grace: agentGrace, TempDir: x.r.opt.TempDir, Installed: x.layered,
		Upload: func(ctx context.Context, dir, dest string, executable ...string) error {
			return during(trials.CauseUpload, upload(ctx, x.sandbox, dir, dest, executable...))
		},
	}
}

func (x *run) setUpAgent(ctx context.Context) *trials.Failure {
	x.place = x.workplace()
	f := x.phase(ctx, trials.PhaseAgentSetup, &x.res.AgentSetup, x.limits.AgentSetup, func(ctx context.Context) error {
		if err := x.bringBundle(ctx); err != nil {
			return err
		}
		return x.agent.Setup(ctx, x.place)
	})
	x.res.AgentInfo = x.agent.Info()
	return f
}

// fetchBundle gets the agent's programs to this host, if it comes with any.
func (x *run) fetchBundle(ctx context.Context) error {
	b, ok := x.agent.(agents.Bundled)
	if !ok {
		return nil
	}
	x.bundle = nil
	parts, err := b.Bundle(runtime.GOARCH)
	if err == nil && x.r.opt.Packages == nil {
		err = errors.New("agents from packages are not available here")
	}
	for i := 0; i < len(parts) && err == nil; i++ {
		var dir string
		dir, err = x.r.opt.Packages(ctx, parts[i].Package)
		x.bundle = append(x.bundle, providers.Mount{Source: dir, Target: parts[i].Dir, ReadOnly: true})
	}
	if err != nil && ctx.Err() == nil {
		return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseUpload, "", err.Error())
	}
	return err
}

// bringBundle uploads the agent's programs where they cannot be mounted.
func (x *run) bringBundle(ctx context.Context) error {
	if x.r.opt.Provider.Info().Can.Mounts {
		return nil
	}
	for _, m := range x.bundle {
		if err := upload(ctx, x.sandbox, m.Source, m.Target); err != nil {
			return during(trials.CauseUpload, err)
		}
	}
	return nil
}

// runAgent lets the agent work. When it returns, no process of the agent is
// left, unless the job asked to keep them.
func (x *run) runAgent(ctx context.Context) *trials.Failure {
	x.res.AgentResult = &trials.AgentResult{}
	f := x.phase(ctx, trials.PhaseAgentExecution, &x.res.AgentExecution, x.limits.Agent, func(ctx context.Context) error {
		x.place.Deadline, _ = ctx.Deadline()
		return x.withModels(ctx, trials.PhaseAgentExecution, x.sandbox, x.place.Env, func(a *agents.Access) error {
			x.place.Access = a
			if a != nil {
				x.place.Env = mergeEnv(x.place.Env, a.Env())
			}
			got, err := x.agent.Run(ctx, x.place)
			if got != nil {
				x.res.AgentResult = got
			}
			return err
		})
	})
	if exit := x.place.Exit; exit != nil {
		exit.TimedOut = f != nil && f.Cause == trials.CauseTimeout
		x.res.Harborgate.AgentExit = exit
	}
	return x.orModels(x.unasked(f))
}

// collectAgentLogs brings /logs/agent to the trial's directory.
func (x *run) collectAgentLogs(ctx context.Context) error {
	if x.kwargs.autoMounting {
		return nil
	}
	tar, err := download(ctx, x.sandbox, agentDir)
	if err != nil {
		return err
	}
	defer tar.Close()
	c := x.t.Config.Agent
	got, err := x.t.Sink.Unpack(tar, trials.Unpack{Dir: "agent", Keep: x.streamed.names, Want: wanted(c.IncludeLogs, c.ExcludeLogs)})
	x.noteLeftOut("agent", got.LeftOut())
	return err
}

func (x *run) noteLeftOut(what string, left []trials.Skipped) {
	for i, s := range left {
		if i == 5 {
			x.note("skipped", fmt.Sprintf("%s: and %d more", what, len(left)-i))
			return
		}
		x.note("skipped", fmt.Sprintf("%s/%s was left out: %s", what, s.Name, s.Reason))
	}
}

// wanted turns include and exclude globs into a filter; an exclude wins.
func wanted(include, exclude []string) func(string) bool {
	if len(include) == 0 && len(exclude) == 0 {
		return nil
	}
	return func(name string) bool {
		return !matches(exclude, name) && (len(include) == 0 || matches(include, name))
	}
}

func matches(globs []string, name string) bool {
	for _, g := range globs {
		if ok, _ := filepath.Match(g, name); ok {
			return true
		}
		if ok, _ := filepath.Match(g, filepath.Base(name)); ok {
			return true
		}
	}
	return false
}
