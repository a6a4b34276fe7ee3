package agents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/tasks"
	"harborgate/trials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a workplace in a fake sandbox, with what was logged and noted.
type desk struct {
	Workplace
	world *fake.World
	logs  map[string]*bytes.Buffer
	notes []string
}

func (d *desk) Open(name string) (io.WriteCloser, error) {
	d.logs[name] = &bytes.Buffer{}
	return nopCloser{d.logs[name]}, nil
}

func (d *desk) Read(name string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(d.logs[name].Bytes())), nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (d *desk) log(name string) string {
	if b, ok := d.logs[name]; ok {
		return b.String()
	}
	return "(none)"
}

// newDesk makes a workplace of a task with these files.
func newDesk(t *testing.T, files map[string]string) *desk {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := fake.NewWorld()
	sb, err := fake.New(fake.Options{World: w}).Create(t.Context(), providers.Spec{
		Name: providers.Name(t.Name()), Source: providers.Source{Image: "debian"}, Workdir: "/app",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Clear)
	d := &desk{world: w, logs: map[string]*bytes.Buffer{}}
	d.Workplace = Workplace{
		Sandbox: sb, Task: &tasks.Task{Dir: dir}, Instruction: "Do it.\n", Log: d, LogsDir: "/logs/agent",
		Note: func(code, _ string) { d.notes = append(d.notes, code) },
		Upload: func(ctx context.Context, dir, dest string, executable ...string) error {
			return uploadDir(ctx, sb, dir, dest)
		},
	}
	return d
}

// uploadDir brings plain files, all of them executable.
func uploadDir(ctx context.Context, sb providers.Sandbox, dir, dest string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		status, err := sb.Exec(ctx, providers.Command{
			Args:  []string{"sh", "-c", `mkdir -p "$0" && cat > "$0/$1" && chmod 755 "$0/$1"`, dest, e.Name()},
			Stdin: bytes.NewReader(b), User: "root",
		})
		if err != nil || !status.OK() {
			return errors.Join(err, errors.New(status.String()))
		}
	}
	return nil
}

func work(t *testing.T, a Agent, d *desk) error {
	t.Helper()
	if err := a.Setup(t.Context(), &d.Workplace); err != nil {
		return err
	}
	got, err := a.Run(t.Context(), &d.Workplace)
	if got == nil {
		t.Error("no agent result")
	}
	return err
}

func makeAgent(t *testing.T, name string, kwargs trials.Object[any]) Agent {
	t.Helper()
	a, err := New(Input{Config: trials.AgentConfig{Name: &name, Kwargs: kwargs}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOracleRunsTheSolution(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		log    string
		code   string
	}{
		"with shebang":    {"#!/bin/sh\necho \"$0 in $(pwd)\"; echo err >&2\n", "/solution/solve.sh in /app\nerr\n", "(none)"},
		"without shebang": {"echo hello\n", "hello\n", "(none)"},
		"with a helper":   {"#!/bin/sh\ncat /solution/data.txt\n", "42\n", "(none)"},
		"fails":           {"#!/bin/sh\nexit 3\n", "", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, map[string]string{"solution/solve.sh": c.script, "solution/data.txt": "42\n"})
			if err := work(t, makeAgent(t, "oracle", nil), d); err != nil {
				t.Fatal(err)
			}
			if d.log("oracle.txt") != c.log || d.log("exit-code.txt") != c.code {
				t.Errorf("log %q, code %q", d.log("oracle.txt"), d.log("exit-code.txt"))
			}
		})
	}
}

func TestOracleWithoutSolution(t *testing.T) {
	t.Parallel()
	err := work(t, makeAgent(t, "oracle", nil), newDesk(t, nil))
	var f *trials.Failure
	if !errors.As(err, &f) || f.Exception != trials.ExcFileNotFound || f.Blame != trials.BlameTask {
		t.Errorf("%v", err)
	}
}

func TestOracleEnvironment(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"solution/solve.sh": "#!/bin/sh\necho $A $B $C $DEBIAN_FRONTEND\n"})
	d.Env = map[string]string{"A": "agent", "B": "agent"}
	name := "oracle"
	a, err := New(Input{Config: trials.AgentConfig{Name: &name}, SolutionEnv: map[string]string{"B": "solution", "C": "solution"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := work(t, a, d); err != nil {
		t.Fatal(err)
	}
	if got := d.log("oracle.txt"); got != "agent solution solution noninteractive\n" {
		t.Errorf("it sees %q", got)
	}
}

func TestNop(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	if err := work(t, makeAgent(t, "nop", trials.Object[any]{"anything": 1}), d); err != nil {
		t.Error(err)
	}
	if len(d.logs) != 0 {
		t.Errorf("it logged %v", d.logs)
	}
}

func TestCommandGetsTheInstruction(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kwargs trials.Object[any]
		log    string
	}{
		"file":          {trials.Object[any]{"command": `cat "$HARBOR_INSTRUCTION_FILE"`}, "Do it.\n"},
		"file by name":  {trials.Object[any]{"command": `cat "$HARBOR_INSTRUCTION_FILE"; cat`, "input": "file"}, "Do it.\n"},
		"stdin":         {trials.Object[any]{"command": "cat", "input": "stdin"}, "Do it.\n"},
		"arg":           {trials.Object[any]{"command": `printf '%s|' "$@"`, "input": "arg"}, "Do it.\n|"},
		"both streams":  {trials.Object[any]{"command": "echo out; echo err >&2"}, "out\nerr\n"},
		"quotes intact": {trials.Object[any]{"command": `echo "a  b" 'c"d' $((1+1))`}, "a  b c\"d 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			if err := work(t, makeAgent(t, "command", c.kwargs), d); err != nil {
				t.Fatal(err)
			}
			if got := d.log("command.txt"); got != c.log {
				t.Errorf("log %q, want %q", got, c.log)
			}
		})
	}
}

func TestCommandScript(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "my agent.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"args $# $1\"; cat \"$HARBOR_INSTRUCTION_FILE\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, nil)
	if err := work(t, makeAgent(t, "command", trials.Object[any]{"script": script, "input": "arg", "version": "2.1"}), d); err != nil {
		t.Fatal(err)
	}
	if got := d.log("command.txt"); got != "args 1 Do it.\n\nDo it.\n" {
		t.Errorf("log %q", got)
	}
}

func TestCommandThatFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	err := work(t, makeAgent(t, "command", trials.Object[any]{"command": "exit 5"}), d)
	var f *trials.Failure
	if !errors.As(err, &f) || f.Exception != trials.ExcNonZeroExit || f.Blame != trials.BlameAgent || !strings.Contains(f.Message, "exit code 5") {
		t.Errorf("%v", err)
	}
	if got := d.log("exit-code.txt"); got != "5" {
		t.Errorf("exit code %q", got)
	}
}

func TestErrorsOfTheSandboxComeAsTheyAre(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"solution/solve.sh": "#!/bin/sh\n"})
	d.world.Inject(fake.Fault{Op: fake.OpExec, Match: "solve.sh", Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable})
	if err := work(t, makeAgent(t, "oracle", nil), d); !providers.Is(err, providers.KindUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.Env, d.User = map[string]string{"A": "desk", "B": "desk"}, "nobody"
	given := map[string]string{"B": "command"}
	for user, want := range map[string]string{"": "nobody desk command\n", "daemon": "daemon desk command\n"} {
		var out bytes.Buffer
		_, err := d.Start(t.Context(), providers.Command{Args: []string{"sh", "-c", "echo $(id -un) $A $B"}, User: user, SecretEnv: given, Stdout: &out, Stderr: &out, Dir: "/"})
		if err != nil || out.String() != want {
			t.Errorf("%q %v, want %q", out.String(), err, want)
		}
	}
	if !maps.Equal(given, map[string]string{"B": "command"}) || !maps.Equal(d.Env, map[string]string{"A": "desk", "B": "desk"}) {
		t.Errorf("maps were changed: %v %v", given, d.Env)
	}
}

func TestLeftoversOfACommand(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		d := newDesk(t, nil)
		d.KeepProcesses = keep
		status, err := d.Start(t.Context(), providers.Command{Args: []string{"sh", "-c", "sleep 1000 >/dev/null 2>&1 &"}})
		if err != nil || (status.Leftovers == 0) != keep {
			t.Errorf("keep %v: %+v %v", keep, status, err)
		}
	}
}

func TestCancelledAgentEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	a := makeAgent(t, "command", trials.Object[any]{"command": "echo begun; sleep 1000"})
	if err := a.Setup(t.Context(), &d.Workplace); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.Run(ctx, &d.Workplace); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		config trials.AgentConfig
		said   string
	}{
		"unknown":            {trials.AgentConfig{Name: text("mystery")}, `"mystery" is not known: choose one of aider, claude-code, codex, command, gemini-cli, goose, mini-swe-agent, nop, omp, opencode, oracle, pi, qwen-coder`},
		"Harbor's":           {trials.AgentConfig{Name: text("openhands")}, "not built yet"},
		"no model":           {trials.AgentConfig{Name: text("claude-code")}, "add -m anthropic/"},
		"acp":                {trials.AgentConfig{Name: text("acp:x")}, "not built yet"},
		"import path":        {trials.AgentConfig{ImportPath: text("a.b:C")}, "Python"},
		"no command":         {trials.AgentConfig{Name: text("command")}, "exactly one"},
		"command and script": {trials.AgentConfig{Name: text("command"), Kwargs: trials.Object[any]{"command": "x", "script": "y"}}, "exactly one"},
		"script is missing":  {trials.AgentConfig{Name: text("command"), Kwargs: trials.Object[any]{"script": "/not/there"}}, "/not/there"},
		"script is a dir":    {trials.AgentConfig{Name: text("command"), Kwargs: trials.Object[any]{"script": "/"}}, "not a readable file"},
		"unknown option":     {trials.AgentConfig{Name: text("command"), Kwargs: trials.Object[any]{"comand": "x"}}, `no option "comand": did you mean command?`},
		"wrong value":        {trials.AgentConfig{Name: text("command"), Kwargs: trials.Object[any]{"command": "x", "input": "telepathy"}}, "one of file, stdin, arg"},
	} {
		if _, err := New(Input{Config: c.config}); err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v, want %q in it", name, err, c.said)
		}
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
		if got, err := Find(k.Name); err != nil || got.Name != k.Name {
			t.Errorf("%s: %v", k.Name, err)
		}
		if k.Doc == "" || k.Schema()["title"] != k.Name || k.Schema()["additionalProperties"] != k.AnyOption {
			t.Errorf("%s: %v", k.Name, k.Schema())
		}
	}
	if diff := cmp.Diff([]string{"aider", "claude-code", "codex", "command", "gemini-cli", "goose", "mini-swe-agent", "nop", "omp", "opencode", "oracle", "pi", "qwen-coder"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestAgentInfo(t *testing.T) {
	t.Parallel()
	name := "command"
	for model, want := range map[string]*trials.ModelInfo{
		"": nil, "gpt": {Name: "gpt"}, "a/b": {Name: "b", Provider: new("a")}, "a/b/c": {Name: "b/c", Provider: new("a")},
	} {
		a, err := New(Input{Config: trials.AgentConfig{Name: &name, ModelName: &model, Kwargs: trials.Object[any]{"command": "x", "version": 3}}})
		if err != nil {
			t.Fatal(err)
		}
		info := a.Info()
		if info.Name != "command" || info.Version != "3" {
			t.Errorf("%+v", info)
		}
		if diff := cmp.Diff(want, info.ModelInfo); diff != "" {
			t.Errorf("%s: %s", model, diff)
		}
	}
}
