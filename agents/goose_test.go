package agents

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

func TestGooseIsToldOfEachFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect, format string
		want            map[string]string
	}{
		{"anthropic", "", map[string]string{"GOOSE_PROVIDER": "anthropic", "ANTHROPIC_HOST": "http://p/up", "ANTHROPIC_API_KEY": "hgt"}},
		{"openai", "", map[string]string{"GOOSE_PROVIDER": "openai", "OPENAI_HOST": "http://p/up", "OPENAI_API_KEY": "hgt", "OPENAI_BASE_PATH": "responses"}},
		{"openai", "openai_chat_completions", map[string]string{"GOOSE_PROVIDER": "openai", "OPENAI_HOST": "http://p/up", "OPENAI_API_KEY": "hgt", "OPENAI_BASE_PATH": "chat/completions"}},
		{"openrouter", "", map[string]string{"GOOSE_PROVIDER": "openai", "OPENAI_HOST": "http://p/up", "OPENAI_API_KEY": "hgt", "OPENAI_BASE_PATH": "chat/completions"}},
		{"gemini", "", map[string]string{"GOOSE_PROVIDER": "google", "GOOGLE_HOST": "http://p/up", "GOOGLE_API_KEY": "hgt"}},
	} {
		cmd := goose().command(job{
			Instruction: "--do {{ it }}", Base: "http://p/up", Token: "hgt", Model: "m", Home: "/h", Dialect: c.dialect, Format: c.format,
			Options: map[string]string{"reasoning_effort": "high", "max_turns": "3"},
		})
		maps.DeleteFunc(cmd.SecretEnv, func(name, _ string) bool { return strings.HasPrefix(name, "GOOSE_") && name != "GOOSE_PROVIDER" })
		if diff := cmp.Diff(c.want, cmd.SecretEnv); diff != "" {
			t.Errorf("%s %s: %s", c.dialect, c.format, diff)
		}
		said, err := io.ReadAll(cmd.Stdin)
		if args := strings.Join(cmd.Args, " "); err != nil || string(said) != "--do {{ it }}" || strings.Contains(args, "hgt") || !strings.HasSuffix(args, "--max-turns=3") {
			t.Errorf("%q %s %v", said, args, err)
		}
	}
}

func TestGooseTellsWhatItDid(t *testing.T) {
	t.Parallel()
	traj := stepsOf(t, goose(), "goose-stdout-success.jsonl")
	if len(traj.Steps) != 3 || traj.Steps[2].Message != "Done." || traj.Steps[1].ToolCalls[0].Name != "shell" ||
		traj.Steps[1].Observation.Results[0].Content != "uid=0(root) gid=0(root) groups=0(root)" {
		t.Errorf("%+v", traj.Steps)
	}
	if traj := stepsOf(t, goose(), "goose-stdout-401.jsonl"); len(traj.Steps) != 2 || traj.Steps[1].Source != atif.System {
		t.Errorf("%+v", traj.Steps)
	}
}

// A message comes piece by piece; a mock's or a careless server's next one has its id.
func TestGooseMessagesInPieces(t *testing.T) {
	t.Parallel()
	var run atif.Run
	read := goose().steps(&run)
	for _, line := range []string{
		`{"type":"message","message":{"id":"a","role":"assistant","content":[{"type":"thinking","thinking":"I wo"}]}}`,
		`{"type":"message","message":{"id":"a","role":"assistant","content":[{"type":"thinking","thinking":"nder"}]}}`,
		`{"type":"message","message":{"id":"a","role":"assistant","content":[{"type":"text","text":"I lo"}]}}`,
		`{"type":"message","message":{"id":"a","role":"assistant","content":[{"type":"text","text":"ok."}]}}`,
		`{"type":"message","message":{"id":"a","role":"assistant","content":[{"type":"toolRequest","id":"t","toolCall":{"status":"error","error":"no such tool"}}]}}`,
		`{"type":"message","message":{"id":"b","role":"user","content":[{"type":"toolResponse","id":"t","toolResult":{"status":"error","error":"no such tool"}}]}}`,
		`{"type":"message","message":{"id":"a","role":"assistant","content":[{"type":"text","text":"Done."}]}}`,
	} {
		read([]byte(line))
	}
	got := run.Trajectory(atif.Agent{Name: "goose", Version: "1"}, atif.Metrics{}).Steps
	if len(got) != 3 || got[0].Message != "I look." || got[0].Reasoning != "I wonder" || got[2].Message != "Done." {
		t.Fatalf("%+v", got)
	}
	if got[1].ToolCalls[0].Name != "unknown" || got[1].Observation.Results[0].Content != "no such tool" {
		t.Errorf("%+v", got[1])
	}
}

// A model that failed once and then went on has not failed.
func TestGooseThatGoesOnHasNotFailed(t *testing.T) {
	t.Parallel()
	o := goose().outcome()
	for _, line := range []string{
		`{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Ran into this error: x\n\nPlease retry"}]}}`,
		`{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}`,
		`{"type":"complete","total_tokens":3}`,
	} {
		o.line([]byte(line))
	}
	if r, failure := o.result(); failure != "" || r.InputTokens != nil {
		t.Errorf("%q %+v", failure, r)
	}
}

// newGoose makes an agent of a model, with MCP servers.
func newGoose(kwargs trials.Object[any], tools ...tasks.MCPServer) (Agent, error) {
	name, model := "goose", "openai/gpt-5"
	return New(Input{Config: trials.AgentConfig{Name: &name, ModelName: &model, Kwargs: kwargs}, Tools: tools})
}

func TestGooseOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for said, c := range map[string]struct {
		kwargs trials.Object[any]
		tools  []tasks.MCPServer
	}{
		"leave one of them out":              {kwargs: trials.Object[any]{"binary": "/g", "install": "inside"}},
		"is no version":                      {kwargs: trials.Object[any]{"binary": "/g", "version": "latest"}},
		"by stdio and streamable-http alone": {tools: []tasks.MCPServer{{Name: "old", Transport: "sse", URL: "http://h"}}},
	} {
		if _, err := newGoose(c.kwargs, c.tools...); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%v, want %q", err, said)
		}
	}
}

func TestGooseWithoutAPackageForASandbox(t *testing.T) {
	t.Parallel()
	a, err := newGoose(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.(Bundled).Bundle("arm64"); err == nil || !strings.Contains(err.Error(), "--ak binary=/path/to/goose") {
		t.Errorf("%v", err)
	}
	if parts, err := a.(Bundled).Bundle("amd64"); err != nil || parts[0].From.(packages.Archive).Integrity == "" {
		t.Errorf("%v %v", parts, err)
	}
}

// A program of the user's is brought as it is, and is known by its digest.
func TestGooseOfTheUsers(t *testing.T) {
	t.Parallel()
	a, err := newGoose(trials.Object[any]{"binary": "my/goose"})
	if err != nil {
		t.Fatal(err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := a.(Bundled).Bundle("arm64")
	want := packages.File{Path: filepath.Join(wd, "my/goose"), Name: "goose", Arch: "arm64"}
	if err != nil || len(parts) != 1 || parts[0].From != want || parts[0].Dir != bundleDir {
		t.Errorf("%+v %v", parts, err)
	}
	if got := a.Info().Version; got != "unknown" {
		t.Errorf("before the sandbox: %s", got)
	}
	d := newDesk(t, nil)
	d.program(t, bundleDir+"/goose", "true")
	if err := a.Setup(t.Context(), &d.Workplace); err == nil {
		t.Error("there is no digest in the sandbox")
	}
	status, err := d.Sandbox.Exec(t.Context(), providers.Command{
		Args: []string{"sh", "-c", `mkdir -p "$0" && cat >"$0"/goose.sha256`, bundleDir}, Stdin: bytes.NewBufferString("0123456789abcdef\n"),
	})
	if err != nil || !status.OK() {
		t.Fatal(status, err)
	}
	if err := a.Setup(t.Context(), &d.Workplace); err != nil {
		t.Fatal(err)
	}
	if got := a.Info().Version; got != "sha256:0123456789ab" {
		t.Errorf("in the sandbox: %s", got)
	}
	named, err := newGoose(trials.Object[any]{"binary": "my/goose", "version": "1.49.0"})
	if err != nil || named.Info().Version != "1.49.0" {
		t.Errorf("%v %v", named, err)
	}
}

func TestGooseSettingsNameNoToken(t *testing.T) {
	t.Parallel()
	files, err := goose().files(job{Token: "hgt", Tools: []settings.Tool{{Name: "w", Transport: "stdio", Command: "/w"}}})
	if text := files["config/config.yaml"]; err != nil || strings.Contains(text, "hgt") || !strings.Contains(text, `"cmd": "/w"`) {
		t.Errorf("%s %v", text, err)
	}
}
