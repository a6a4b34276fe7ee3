package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// files are the files that make a small task complete, beside its task.toml.
const files = `
-- instruction.md --
Do it.
-- environment/Dockerfile --
FROM debian:bookworm-slim
-- tests/test.sh --
#!/bin/sh
echo 1 > /logs/verifier/reward.txt
`

// write makes a directory of an archive and returns its path.
func write(t testing.TB, archive string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "task")
	for _, f := range txtar.Parse([]byte(archive)).Files {
		p := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// load reads a task that has this task.toml.
func load(t *testing.T, toml string) (*Task, Problems) {
	t.Helper()
	return Load(write(t, "-- task.toml --\n"+toml+files), LoadOptions{})
}

// brief is a problem in one line, without its file.
func brief(ps Problems) string {
	var lines []string
	for _, p := range ps {
		lines = append(lines, fmt.Sprintf("%d:%d %s %s: %s", p.Line, p.Column, p.Severity, p.Code, p.Message))
	}
	return strings.Join(lines, "\n")
}

func TestLoadGoldenTasks(t *testing.T) {
	t.Parallel()
	found, problems := Find([]string{"testdata/golden"}, LoadOptions{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if len(found) != 10 {
		t.Fatalf("found %d tasks, want 10", len(found))
	}
	for _, f := range found {
		if f.Task == nil || len(f.Problems) > 0 {
			t.Errorf("%s: %v", f.Path, f.Problems)
		}
		if f.Dataset != "golden" {
			t.Errorf("%s: data set %q", f.Path, f.Dataset)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if task, ps := Load("testdata/golden/hello-ok", LoadOptions{}); task == nil {
			b.Fatal(ps)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

func TestLoadProblems(t *testing.T) {
	t.Parallel()
	without := func(name string) string {
		a := txtar.Parse([]byte("-- task.toml --\n" + files))
		for i, f := range a.Files {
			if f.Name == name {
				a.Files = append(a.Files[:i], a.Files[i+1:]...)
				break
			}
		}
		return string(txtar.Format(a))
	}
	const steps = "-- task.toml --\n[environment]\ndocker_image = \"x\"\n[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n" +
		"-- steps/one/instruction.md --\nDo it.\n-- steps/one/tests/test.sh --\ntrue\n"
	for name, c := range map[string]struct{ archive, want string }{
		"complete":       {"-- task.toml --\n" + files, ""},
		"no task.toml":   {without("task.toml"), "missing-file: task.toml is missing: every task has one"},
		"no instruction": {without("instruction.md"), "missing-file: instruction.md is missing: it is what the agent is told"},
		"no tests":       {without("tests/test.sh"), "missing-file: tests/test.sh is missing: it decides the reward"},
		"no environment": {
			without("environment/Dockerfile"),
			"no-environment: nothing says what the sandbox is made from: there is no environment/Dockerfile, no compose file and no docker_image",
		},
		"image instead":     {without("environment/Dockerfile") + "-- task.toml --\nenvironment.docker_image = \"x\"\n", ""},
		"compose":           {without("environment/Dockerfile") + "-- environment/docker-compose.yaml --\nservices: {}\n", ""},
		"blank instruction": {without("instruction.md") + "-- instruction.md --\n \n", "empty-instruction: instruction.md tells the agent nothing"},
		"only a canary":     {without("instruction.md") + "-- instruction.md --\n<!-- canary 1 -->\n\n", "empty-instruction: instruction.md tells the agent nothing"},
		"windows":           {without("") + "-- task.toml --\nenvironment.os = \"windows\"\n", "missing-file: tests/test.bat is missing: it decides the reward"},
		"bundled tests": {
			without("tests/test.sh") + "-- task.toml --\nverifier.environment_mode = \"separate\"\n-- tests/Dockerfile --\nFROM x\n", "",
		},
		"shared tests Dockerfile": {
			without("tests/test.sh") + "-- tests/Dockerfile --\nFROM x\n", "missing-file: tests/test.sh is missing: it decides the reward",
		},
		"steps":                  {steps + "-- steps/two/instruction.md --\nMore.\n-- tests/test.sh --\ntrue\n", ""},
		"step without directory": {steps, "missing-file: step \"two\" has no directory steps/two"},
		"step without files": {
			steps + "-- steps/two/x --\n",
			"missing-file: steps/two/instruction.md is missing: it is what the agent is told\n" +
				"missing-file: steps/two/tests/test.sh is missing: it decides the reward",
		},
	} {
		task, problems := Load(write(t, c.archive), LoadOptions{})
		var lines []string
		for _, p := range problems {
			lines = append(lines, p.Code+": "+p.Message)
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
		if (task != nil) != (c.want == "") {
			t.Errorf("%s: task %v", name, task)
		}
	}
	if task, problems := Load(write(t, without("tests/test.sh")), LoadOptions{NoVerification: true}); task == nil {
		t.Errorf("without verification: %v", problems)
	}
}

func TestLinksOutOfTheTaskAreRefused(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for target, code := range map[string]string{
		secret:                   "escaping-link",
		"/etc":                   "escaping-link",
		"/does/not/exist":        "escaping-link",
		"../../other":            "escaping-link",
		"..":                     "looping-link",
		".":                      "looping-link",
		"link":                   "looping-link",
		"../instruction.md":      "",
		"../tests":               "",
		"Dockerfile":             "",
		"missing":                "",
		"../environment/missing": "",
	} {
		dir := write(t, "-- task.toml --\n"+files)
		if err := os.Symlink(target, filepath.Join(dir, "environment", "link")); err != nil {
			t.Fatal(err)
		}
		_, problems := Load(dir, LoadOptions{})
		if code == "" && len(problems) > 0 || code != "" && (len(problems) != 1 || problems[0].Code != code || problems[0].File != filepath.Join(dir, "environment", "link")) {
			t.Errorf("link to %s: %+v", target, problems)
		}
	}
}

func TestB093Find(t *testing.T) {
	t.Parallel()
	archive := ""
	add := func(name, toml string) {
		for _, f := range txtar.Parse([]byte("-- task.toml --\n" + toml + "\n" + files)).Files {
			archive += "-- " + name + "/" + f.Name + " --\n" + string(f.Data)
		}
	}
	add("b-good", "")
	add("a-template", "[task]\nname = \"{org}/{name}\"")
	add("c-syntax", "name = {{name}}")
	add(".hidden", "")
	add("Z-package", "[task]\nname = \"org/packaged\"")
	archive += "-- README.md --\nhello\n-- docs/x.md --\nx\n-- filter/task.toml --\n[filters.task]\nmax_lines = 80\n"
	dir := write(t, archive)
	elsewhere := write(t, "-- task.toml --\n"+files)
	if err := os.Symlink(elsewhere, filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}

	found, problems := Find([]string{dir}, LoadOptions{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var got []string
	for _, f := range found {
		state := "good"
		if f.Task == nil {
			p := f.Problems.Least(SeverityError)[0]
			state = fmt.Sprintf("%s at %d:%d", p.Code, p.Line, p.Column)
		}
		got = append(got, filepath.Base(f.Path)+" "+f.Name()+" "+state)
		if f.Dataset != "task" {
			t.Errorf("%s is of data set %q", f.Path, f.Dataset)
		}
	}
	want := "Z-package org/packaged good, a-template a-template bad-value at 2:1, b-good b-good good, " +
		"c-syntax c-syntax toml-syntax at 1:9, linked task good"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("found %s\nwant %s", s, want)
	}
}

func TestFindPaths(t *testing.T) {
	t.Parallel()
	one := write(t, "-- task.toml --\n"+files)
	noToml := write(t, files)
	nested := write(t, "-- group/a/task.toml --\n-- group/a/instruction.md --\nx\n")
	empty := t.TempDir()
	for _, c := range []struct{ path, message, next string }{
		{noToml, "looks like a task, but task.toml is missing", "add task.toml"},
		{empty, "neither a task (it has no task.toml) nor a directory of tasks (none of its subdirectories has one)", "name a directory that holds"},
		{nested, "neither a task", "the tasks lie deeper: name " + filepath.Join(nested, "group")},
		{filepath.Join(empty, "none"), "no such directory", "correct the path"},
		{filepath.Join(one, "task.toml"), "is a file", "name the directory"},
	} {
		found, problems := Find([]string{one, c.path}, LoadOptions{})
		if len(found) != 1 || found[0].Dataset != "" || found[0].Task == nil {
			t.Errorf("%s: found %+v", c.path, found)
		}
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Message, c.message) || !strings.HasPrefix(problems[0].Next, c.next) {
			t.Errorf("%s: %v", c.path, problems)
		}
	}
}

func TestTaskNameOfADot(t *testing.T) {
	dir := write(t, "-- task.toml --\n"+files)
	t.Chdir(dir)
	task, problems := Load(".", LoadOptions{})
	if task == nil || task.Name != "task" {
		t.Errorf("%+v, %v", task, problems)
	}
}

func TestB091Instruction(t *testing.T) {
	t.Parallel()
	hard := "$(touch /tmp/pwn) `x` 'q' \"d\" \U0001F600 é \x00 end\r\n\n"
	for file, want := range map[string]string{
		hard:              hard,
		"\ufeff" + hard:   hard,
		"\n\nleading\n":   "\n\nleading\n",
		"# Title\ntext\n": "# Title\ntext\n",
		"<!-- harbor-canary GUID 1 -->\n\n\ntext\n":                         "text\n",
		"# BENCHMARK CANARY\n  <!-- Canary -->  \r\n\r\n# The canary\ntext": "# The canary\ntext",
		"text\n<!-- canary -->\n":                                           "text\n<!-- canary -->\n",
		"<!-- canary":                                                       "<!-- canary",
		"# canary":                                                          "",
	} {
		if got := stripCanary(file); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
	task, problems := load(t, "")
	if task == nil {
		t.Fatal(problems)
	}
	if got, err := task.Instruction(nil); err != nil || got != "Do it.\n" {
		t.Errorf("%q, %v", got, err)
	}
}
