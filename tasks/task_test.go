package tasks

import (
	"path/filepath"
	"strings"
	"testing"
)

// mustLoad loads a task that has to be good.
func mustLoad(t *testing.T, archive string) *Task {
	t.Helper()
	task, problems := Load(write(t, archive), LoadOptions{})
	if task == nil {
		t.Fatal(problems)
	}
	return task
}

const twoSteps = `
-- environment/Dockerfile --
FROM debian
-- tests/test.sh --
shared
-- solution/solve.sh --
shared
-- steps/one/instruction.md --
first
-- steps/two/instruction.md --
second
-- steps/two/tests/test.sh --
own
-- steps/two/solution/solve.sh --
own
-- steps/two/workdir/data --
x
`

func TestStepFiles(t *testing.T) {
	t.Parallel()
	task := mustLoad(t, "-- task.toml --\n[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n"+twoSteps)
	rel := func(p string) string {
		r, err := filepath.Rel(task.Dir, p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one, two := task.Step("one"), task.Step("two")
	if task.Step("three") != nil || !task.Multistep() {
		t.Error("steps")
	}
	for _, c := range []struct {
		step                    *Step
		test, solve, dirs, text string
		workdir                 bool
	}{
		{one, "tests/test.sh", "solution/solve.sh", "tests", "first\n", false},
		{two, "steps/two/tests/test.sh", "steps/two/solution/solve.sh", "tests steps/two/tests", "second\n", true},
	} {
		test, _ := task.TestScript(c.step)
		solve, _ := task.SolutionScript(c.step)
		var dirs []string
		for _, d := range task.TestDirs(c.step) {
			dirs = append(dirs, rel(d))
		}
		solution, _ := task.SolutionDir(c.step)
		text, err := task.Instruction(c.step)
		_, workdir := task.StepWorkdir(c.step)
		if rel(test) != c.test || rel(solve) != c.solve || strings.Join(dirs, " ") != c.dirs || err != nil || text != c.text || workdir != c.workdir {
			t.Errorf("step %s: %s, %s, %s, %q, %v, %v", c.step.Name, test, solve, dirs, text, workdir, err)
		}
		if solution != filepath.Dir(solve) {
			t.Errorf("step %s: solution %s", c.step.Name, solution)
		}
	}
}

func TestVerifierModes(t *testing.T) {
	t.Parallel()
	task := mustLoad(t, `-- task.toml --
[verifier]
environment_mode = "separate"
[[steps]]
name = "one"
verifier.environment_mode = "shared"
[[steps]]
name = "two"
[[steps]]
name = "three"
verifier.environment = {docker_image = "own"}
-- steps/three/instruction.md --
third
`+twoSteps)
	for name, want := range map[string]VerifierMode{"one": VerifierShared, "two": VerifierSeparate, "three": VerifierSeparate} {
		if got := task.VerifierMode(task.Step(name)); got != want {
			t.Errorf("step %s: %s", name, got)
		}
	}
	if got := mustLoad(t, "-- task.toml --\n"+files).VerifierMode(nil); got != VerifierShared {
		t.Errorf("default %s", got)
	}
	if got := mustLoad(t, "-- task.toml --\n[verifier.environment]\ncpus = 1\n"+files).VerifierMode(nil); got != VerifierSeparate {
		t.Errorf("with an environment %s", got)
	}
}

func TestVerifierSources(t *testing.T) {
	t.Parallel()
	const separate = "-- task.toml --\nverifier.environment_mode = \"separate\"\nenvironment.cpus = 3\n"
	for name, c := range map[string]struct {
		archive        string
		image, context string
		bundled        bool
		cpus           float64
	}{
		"the environment again": {separate + files, "", "environment", false, 3},
		"tests/Dockerfile":      {separate + files + "-- tests/Dockerfile --\nFROM x\n", "", "tests", true, 3},
		"own image":             {separate + "verifier.environment = {docker_image = \"own\", cpus = 1}\n" + files + "-- tests/Dockerfile --\nFROM x\n", "own", "", true, 1},
		"own settings":          {separate + "verifier.environment = {cpus = 1}\n" + files, "", "environment", false, 1},
		"prebuilt":              {separate + "environment.docker_image = \"pre\"\n-- instruction.md --\nx\n-- tests/test.sh --\nx\n", "pre", "", false, 3},
	} {
		task := mustLoad(t, c.archive)
		s := task.VerifierSource(nil)
		context := ""
		if s.ContextDir != "" {
			context, _ = filepath.Rel(task.Dir, s.ContextDir)
		}
		if s.Image != c.image || context != c.context || s.Bundled != c.bundled || *s.Environment.CPUs != c.cpus {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	for toml, want := range map[string]string{
		"":                                   "",
		"environment.allow_internet = false": "no-network: environment.network_mode is no-network",
		"environment.gpus = 1":               "gpu: environment.gpus is 1",
		"environment.os = \"windows\"":       "windows: environment.os is windows",
		"environment.tpu = {type = \"a\", topology = \"2x2\"}":                                     "tpu: environment.tpu is a 2x2",
		"environment = {network_mode = \"allowlist\", allowed_hosts = [\"a.org\"]}":                "allowlist: environment.network_mode is allowlist",
		"agent.network_mode = \"no-network\"":                                                      "no-network: agent.network_mode is no-network; network-switch: agent.network_mode is no-network but environment.network_mode is public",
		"agent.network_mode = \"public\"":                                                          "",
		"verifier = {network_mode = \"no-network\", environment_mode = \"separate\"}":              "no-network: verifier.network_mode is no-network",
		"verifier.environment = {network_mode = \"no-network\", gpus = 2}":                         "no-network: verifier.environment.network_mode is no-network; gpu: verifier.environment.gpus is 2",
		"artifacts = [{source = \"/a\", service = \"db\"}, {source = \"/b\", service = \"main\"}]": "sidecars: artifact /a is of service db",
		"verifier.collect = [{command = \"x\", service = \"db\"}]":                                 "sidecars: verifier.collect runs a command in service db",
	} {
		task := mustLoad(t, "-- task.toml --\n"+toml+"\n"+files+"-- tests/test.bat --\nrem\n")
		var got []string
		for _, n := range task.Needs() {
			got = append(got, n.String())
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s: %s, want %s", toml, s, want)
		}
	}

	task := mustLoad(t, "-- task.toml --\n[environment]\nskills_dir = \"/s\"\nallow_internet = false\nmcp_servers = [{name = \"m\", url = \"u\"}]\n[[steps]]\nname = \"one\"\n"+
		twoSteps+"-- environment/docker-compose.yaml --\nservices: {}\n-- steps/one/trajectory.json --\n{}\n")
	var features []string
	for _, n := range append(task.Needs(), task.AgentNeeds()...) {
		features = append(features, string(n.Feature))
	}
	if s := strings.Join(features, " "); s != "compose steps no-network mcp-servers skills prior-trajectory" {
		t.Error(s)
	}
	if left := task.Unsupported(FeatureNoNetwork, FeatureSteps); len(left) != 1 || left[0].Feature != FeatureCompose {
		t.Errorf("unsupported %v", left)
	}
}

func TestB107ResolveEnv(t *testing.T) {
	t.Parallel()
	host := func(name string) (string, bool) {
		v, ok := map[string]string{"SET": "value", "EMPTY": ""}[name]
		return v, ok
	}
	got, err := ResolveEnv(map[string]string{
		"a": "${SET}", "b": "${EMPTY}", "c": "${NONE:-default}", "d": "${NONE:-}", "e": "x-${SET}", "f": "${SET}y",
		"g": "${EMPTY:-default}", "h": "${NONE:-a}b}", "i": "$SET", "j": "${}", "k": "${SET:x}", "l": "${SET\n}", "m": "${NONE:-a\nb}",
	}, "task.toml [verifier.env]", host)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"a": "value", "b": "", "c": "default", "d": "", "e": "x-${SET}", "f": "${SET}y",
		"g": "", "h": "a}b", "i": "$SET", "j": "${}", "k": "${SET:x}", "l": "${SET\n}", "m": "${NONE:-a\nb}",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
	_, err = ResolveEnv(map[string]string{"KEY": "${NONE}", "OTHER": "${GONE}", "OK": "${SET}"}, "task.toml [verifier.env]", host)
	const want = "environment variables are not set: NONE (used by task.toml [verifier.env] KEY), " +
		"GONE (used by task.toml [verifier.env] OTHER); export them or pass --env-file"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	task := mustLoad(t, `-- task.toml --
environment.env = {A = "${A}", PLAIN = "x"}
environment.mcp_servers = [{name = "m", url = "http://h", headers = {X = "${H}"}}]
verifier.env = {B = "${B:-d}"}
verifier.environment.env = {C = "${C}"}
solution.env = {D = "${D}"}
`+files)
	var got []string
	for _, v := range task.Variables(true) {
		got = append(got, v.Where+"="+v.Name+":"+v.Default)
	}
	want := "task.toml [environment.env] A=A: task.toml [verifier.env] B=B:d task.toml [[environment.mcp_servers]] m headers X=H: " +
		"task.toml [verifier.environment.env] C=C: task.toml [solution.env] D=D:"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
	if n := len(task.Variables(false)); n != 4 {
		t.Errorf("%d variables without the solution", n)
	}
}

func TestParseHost(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		" Example.ORG. ": "example.org", "*.example.org": "*.example.org", "localhost": "localhost",
		"10.0.0.1": "10.0.0.1", "2001:DB8:0:0::1": "2001:db8::1", "10.0.0.0/8": "10.0.0.0/8", "2001:db8::/32": "2001:db8::/32",
		"a_b.org": "a_b.org", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"": "", "http://a.org": "", "a.org:80": "", "a.org/x": "", "[::1]": "", "*": "", "*.*.org": "", "10.0.0.300": "", "1": "", "a*.org": "", "a b": "",
		"10.0.0.1/8": "", "10.0.0.0/33": "", "-a.org": "", "a..org": "", "fe80::1%eth0": "", "*.10.0.0.0/8": "",
		strings.Repeat("a", 64) + ".org": "",
	} {
		if got, err := ParseHost(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestClosest(t *testing.T) {
	t.Parallel()
	known := []string{"name", "cpus", "timeout_sec", "network_mode", "task", "steps", "tpu", "source"}
	for in, want := range map[string]string{
		"cpu": "cpus", "CPUs": "cpus", "timeout": "timeout_sec", "timeoutSec": "timeout_sec", "timeout_secs": "timeout_sec",
		"timeuot_sce": "timeout_sec", "netwrok_mode": "network_mode", "nmae": "name", "step": "steps",
		"tags": "", "tests": "", "type": "", "dir": "", "id": "", "source_id": "", "": "",
	} {
		if got := Closest(in, known); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
