package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

func putSkill(t *testing.T, dir, text string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, skillFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func thinking(name string, change func(*trials.AgentConfig)) trials.AgentConfig {
	model := "anthropic/m"
	c := trials.AgentConfig{Name: &name, ModelName: &model}
	change(&c)
	return c
}

func TestSkillsOfTaskAndJobGetToTheAgent(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.program(t, bundleDir+"/claude", "true")
	d.Task.Config.Environment.SkillsDir = "/task-skills"
	status, err := d.Sandbox.Exec(t.Context(), providers.Command{Args: []string{"sh", "-c", "mkdir -p /task-skills/a /task-skills/b && echo task > /task-skills/a/SKILL.md && echo task > /task-skills/b/SKILL.md"}})
	if err != nil || !status.OK() {
		t.Fatal(status, err)
	}
	one, many := putSkill(t, filepath.Join(t.TempDir(), "b"), "job"), t.TempDir()
	putSkill(t, filepath.Join(many, "c"), "job")
	a, err := New(Input{Config: thinking("claude-code", func(c *trials.AgentConfig) { c.Skills = []string{one, many} })})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Setup(t.Context(), &d.Workplace); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	_, err = d.Sandbox.Exec(t.Context(), providers.Command{Args: []string{"sh", "-c", "cd /logs/agent/sessions/skills && cat a/SKILL.md b/SKILL.md c/SKILL.md"}, Stdout: &out})
	if err != nil || out.String() != "task\njobjob" {
		t.Errorf("%q %v", out.String(), err)
	}
}

func TestSkillsThatAreNotThere(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.program(t, bundleDir+"/bin/codex", "true")
	d.Task.Config.Environment.SkillsDir = "/nowhere"
	a, err := New(Input{Config: thinking("codex", func(*trials.AgentConfig) {})})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Setup(t.Context(), &d.Workplace); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v", err)
	}
	same := putSkill(t, filepath.Join(t.TempDir(), "x"), "")
	for name, c := range map[string]struct {
		agent  string
		skills []string
		want   string
	}{
		"registry":  {"codex", []string{"org/name@1"}, "org/name@1 is no directory of this host"},
		"no skill":  {"codex", []string{t.TempDir()}, "there is no SKILL.md in it"},
		"two alike": {"codex", []string{same, putSkill(t, filepath.Join(t.TempDir(), "x"), "")}, "have the same name"},
		"command":   {"command", []string{same}, "agent command does not use skills (--skill)"},
	} {
		if _, err := New(Input{Config: thinking(c.agent, func(a *trials.AgentConfig) { a.Skills = c.skills })}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every agent that says that it takes tool servers is told of them, and of what their
// headers hold by no command line.
func TestAgentsAreToldOfToolServers(t *testing.T) {
	t.Parallel()
	all := toolsOf([]tasks.MCPServer{
		{Name: "files", Transport: "stdio", Command: "/opt/tasks-own"}, {Name: "web", Transport: "streamable-http", URL: "http://h/mcp", Headers: map[string]string{"X-Key": "s3cret"}},
		{Name: "files", Transport: "stdio", Command: "/opt/files"},
	})
	if len(all) != 2 || all[0].Command != "/opt/files" {
		t.Errorf("the job's server does not count: %+v", all)
	}
	told := 0
	for _, f := range []facts{aider(), claudeCode(), codex(), gemini(), miniSWE(), omp(), opencode(), pi(), qwen()} {
		j := job{Instruction: "do it", Base: "http://127.0.0.1:7/up", Route: "http://127.0.0.1:7/up", Dialect: f.dialects[0], Token: "hgt", Model: "m", LogsDir: "/logs/agent", Home: "/home", Options: map[string]string{}}
		text := func(tools []settings.Tool) (args, whole string) {
			j.Tools = tools
			args = strings.Join(f.command(j).Args, " ")
			whole = args
			if f.files != nil {
				whole += filesOf(t, f, j)
			}
			return args, whole
		}
		args, whole := text(all)
		if strings.Contains(args, "s3cret") {
			t.Errorf("%s: the header is on the command line", f.name)
		}
		if says := strings.Contains(whole, "/opt/files") && strings.Contains(whole, "http://h/mcp"); says != f.tools {
			t.Errorf("%s: it takes tool servers: %v, it is told of them: %v", f.name, f.tools, says)
		} else if says {
			told++
		}
		if _, none := text(nil); strings.Contains(none, "mcp") {
			t.Errorf("%s: servers that are none: %s", f.name, none)
		}
	}
	if told < 7 {
		t.Errorf("%d agents were told", told)
	}
}
