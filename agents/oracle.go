package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"harborgate/providers"
	"harborgate/trials"
)

// solutionDir is where the oracle finds the task's solution inside.
const solutionDir = "/solution"

// oracle runs the task's own solution. A failing solution is no error: the
// verifier says what it is worth.
type oracle struct {
	env map[string]string // the resolved [solution.env], which beats the agent's
}

func (o *oracle) Info() trials.AgentInfo {
	return trials.AgentInfo{Name: "oracle", Version: "1.0.0"}
}

func (o *oracle) Setup(context.Context, *Workplace) error { return nil }

func (o *oracle) Run(ctx context.Context, w *Workplace) (*trials.AgentResult, error) {
	script, ok := w.Task.SolutionScript(nil)
	if !ok {
		return &trials.AgentResult{}, &trials.Failure{
			Phase: trials.PhaseAgentExecution, Cause: trials.CauseInvalidTask, Blame: trials.BlameTask,
			Exception: trials.ExcFileNotFound,
			Message:   "the oracle has nothing to run: the task has no solution/solve.sh",
		}
	}
	name := filepath.Base(script)
	if err := w.Upload(ctx, filepath.Dir(script), solutionDir, name); err != nil {
		return &trials.AgentResult{}, err
	}
	args, err := ScriptArgs(solutionDir+"/"+name, script)
	if err != nil {
		return &trials.AgentResult{}, err
	}
	env := map[string]string{"DEBIAN_FRONTEND": "noninteractive"}
	maps.Copy(env, w.Env)
	maps.Copy(env, o.env)
	status, err := runLogged(ctx, w, "oracle.txt", providers.Command{
		Args: args, SecretEnv: env,
	})
	if err == nil && !status.OK() {
		err = writeExitCode(w, status)
	}
	return &trials.AgentResult{}, err
}

// runLogged runs a command whose output, both streams in order, goes to a file
// of the agent's directory while it runs.
func runLogged(ctx context.Context, w *Workplace, name string, c providers.Command) (status providers.ExitStatus, err error) {
	log, err := w.Log.Open(name)
	if err != nil {
		return status, fmt.Errorf("open agent log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	c.Stdout, c.Stderr = log, log
	return w.Start(ctx, c)
}

func writeExitCode(w *Workplace, status providers.ExitStatus) error {
	f, err := w.Log.Open("exit-code.txt")
	if err != nil {
		return fmt.Errorf("open agent log: %w", err)
	}
	_, err = io.WriteString(f, strconv.Itoa(status.Code))
	return errors.Join(err, f.Close())
}

// ScriptArgs starts an executable script at path in a sandbox; host is the same
// file here. One without a shebang is given to bash, or to sh where there is no
// bash, as a shell would do.
func ScriptArgs(path, host string) ([]string, error) {
	f, err := os.Open(host)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, 2)
	if _, err := io.ReadFull(f, start); err == nil && string(start) == "#!" {
		return []string{path}, nil
	}
	return []string{"sh", "-c", `if command -v bash >/dev/null 2>&1; then exec bash "$0"; fi; exec sh "$0"`, path}, nil
}
