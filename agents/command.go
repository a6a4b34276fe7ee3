package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"harborgate/providers"
	"harborgate/trials"
)

// Where the command agent's files are inside.
const (
	commandDir      = "/harbor-agent"
	instructionFile = "/harbor-agent-input/instruction.md"
)

// command runs what the user gave: a shell command, or a script of this host.
// It gets the instruction as a file ($HARBOR_INSTRUCTION_FILE), on standard
// input, or as its last argument.
type command struct {
	shell   string // run with bash, or sh
	script  string // path on this host
	input   string // "file", "stdin" or "arg"
	version string
	model   *trials.ModelInfo
}

// commandOptions are the kwargs of the command agent.
var commandOptions = []Option{
	{Name: "command", Doc: "shell command to run in the sandbox"},
	{Name: "script", Doc: "script of this host to upload and run, instead of command"},
	{Name: "input", Doc: `how the instruction is given: "file" ($HARBOR_INSTRUCTION_FILE), "stdin" or "arg"`, Values: []string{"file", "stdin", "arg"}, Default: "file"},
	{Name: "version", Doc: "version to record in results", Default: "unknown"},
}

func newCommand(c trials.AgentConfig, kw map[string]string) (Agent, error) {
	a := &command{shell: kw["command"], script: kw["script"], input: kw["input"], version: kw["version"], model: modelInfo(c)}
	if (a.shell == "") == (a.script == "") {
		return nil, fmt.Errorf("agent command: give exactly one of --ak command='…' and --ak script=PATH")
	}
	if a.script != "" {
		if fi, err := os.Stat(a.script); err != nil || !fi.Mode().IsRegular() {
			return nil, fmt.Errorf("agent command: script %s is not a readable file of this host", a.script)
		}
	}
	return a, nil
}

func (c *command) Info() trials.AgentInfo {
	return trials.AgentInfo{Name: "command", Version: c.version, ModelInfo: c.model}
}

func (c *command) Setup(ctx context.Context, w *Workplace) error {
	dir, err := os.MkdirTemp(w.TempDir, "agent-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(instructionFile)), []byte(w.Instruction), 0o644); err != nil {
		return err
	}
	if err := w.Upload(ctx, dir, filepath.Dir(instructionFile)); err != nil {
		return err
	}
	if c.script == "" {
		return nil
	}
	body, err := os.ReadFile(c.script)
	if err != nil {
		return err
	}
	sdir, err := os.MkdirTemp(w.TempDir, "agent-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(sdir)
	if err := os.WriteFile(filepath.Join(sdir, "agent"), body, 0o755); err != nil {
		return err
	}
	return w.Upload(ctx, sdir, commandDir, "agent")
}

func (c *command) Run(ctx context.Context, w *Workplace) (*trials.AgentResult, error) {
	cmd := providers.Command{
		Args: c.args(),
		Env:  map[string]string{"HARBOR_INSTRUCTION_FILE": instructionFile},
	}
	switch c.input {
	case "stdin":
		cmd.Stdin = strings.NewReader(w.Instruction)
	case "arg":
		cmd.Args = append(cmd.Args, w.Instruction)
	}
	status, err := runLogged(ctx, w, "command.txt", cmd)
	if err == nil && !status.OK() {
		if werr := writeExitCode(w, status); werr != nil {
			return &trials.AgentResult{}, werr
		}
		err = trials.NewFailure(trials.PhaseAgentExecution, trials.CauseExit, "",
			fmt.Sprintf("the agent's command ended with %s; its output is in agent/command.txt", status))
	}
	return &trials.AgentResult{}, err
}

// args runs a script by its shebang, and a command with bash where there is one.
// What follows "agent" becomes $1.
func (c *command) args() []string {
	if c.script != "" {
		return []string{commandDir + "/agent"}
	}
	return []string{"sh", "-c", `if command -v bash >/dev/null 2>&1; then exec bash -c "$0" agent "$@"; fi; exec sh -c "$0" agent "$@"`, c.shell}
}
