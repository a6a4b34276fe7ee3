// Package agents adapts coding agents to one interface. An adapter knows how to
// prepare its agent in a sandbox, how to start it on an instruction, and how to
// read what it reported. It decides nothing about timeouts, retries or rewards:
// those are the runner's.
//
// Built in: oracle (runs the task's own solution), nop (does nothing) and
// command (any shell command of the user's). Installed agents come as one file
// each, with a row in the table of registry.go.
package agents

import (
	"context"
	"io"
	"maps"
	"strconv"
	"time"

	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

// An Agent works on one trial. Setup and Run are called once each, in order.
// They return a *trials.Failure for what is the agent's or the task's doing, and
// any other error as it came (the context's, the provider's).
type Agent interface {
	// Info may say more after Setup (the version).
	Info() trials.AgentInfo
	// Setup prepares the sandbox: installs, writes settings. No task work.
	Setup(ctx context.Context, w *Workplace) error
	// Run works on the instruction until the agent is done.
	Run(ctx context.Context, w *Workplace) (*trials.AgentResult, error)
}

// Log gives a file of the trial's agent directory that is written while the
// command runs, with the size limit of the trial's logs.
type Log interface {
	Open(name string) (io.WriteCloser, error)
	// Read gives what a file that was opened has by now.
	Read(name string) (io.ReadCloser, error)
}

// Workplace is what an agent works with.
type Workplace struct {
	Sandbox     providers.Sandbox
	Task        *tasks.Task
	Instruction string
	User        string            // whom agent commands run as; "" is the sandbox's
	Env         map[string]string // of agent commands: environment, then job settings
	// Access is the way to models, for Run; nil when there is none.
	Access *Access
	Log    Log
	// Upload puts a directory of this host at a path in the sandbox.
	Upload func(ctx context.Context, dir, dest string, executable ...string) error
	// LogsDir is the agent's log directory inside the sandbox.
	LogsDir string
	// KeepProcesses leaves what the agent started running for the verifier.
	KeepProcesses bool
	// Deadline is when the agent's work ends, zero is never. Its commands find it
	// in DeadlineVariable.
	Deadline time.Time
	// Grace is what a command has between SIGTERM and SIGKILL when its time is
	// over: to save what it has.
	Grace time.Duration
	// Exit is how the last command ended; nil before one did.
	Exit *trials.Exit
	// Installed says that what the agent installs in sandboxes is there.
	Installed bool
	// TempDir is for files of this host that are on their way into the sandbox; ""
	// is the system's.
	TempDir string
	// Notes are told what happened beside the verdict.
	Note func(code, message string)
}

// DeadlineVariable tells an agent when its time is over, in seconds since 1970.
const DeadlineVariable = "HARBOR_AGENT_DEADLINE"

// Start runs one of the agent's commands as the agent's user, with its
// environment. Whatever it leaves running is killed when it ends.
func (w *Workplace) Start(ctx context.Context, c providers.Command) (providers.ExitStatus, error) {
	if c.User == "" {
		c.User = w.User
	}
	env := maps.Clone(w.Env)
	if env == nil {
		env = map[string]string{}
	}
	if !w.Deadline.IsZero() {
		env[DeadlineVariable] = strconv.FormatInt(w.Deadline.Unix(), 10)
	}
	maps.Copy(env, c.SecretEnv)
	c.SecretEnv, c.Grace = env, w.Grace
	c.KillLeftovers = !w.KeepProcesses
	status, err := w.Sandbox.Exec(ctx, c)
	if w.Exit = nil; err == nil || !status.OK() { // otherwise nobody knows
		w.Exit = &trials.Exit{Code: status.Code, Signal: status.Signal, OOMKilled: status.OOMKilled}
	}
	if status.OOMKilled {
		w.Note("oom_killed", "the kernel killed a process of the agent because the sandbox ran out of memory")
	}
	return status, err
}
