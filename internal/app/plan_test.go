package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

func threeTasks(t *testing.T) string {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set")
	for _, name := range []string{"gamma", "alpha", "beta"} {
		putTask(t, set, name, "true", "")
	}
	return set
}

func TestPlanOfADataset(t *testing.T) {
	t.Parallel()
	set := threeTasks(t)
	list := func(s ...string) *trials.List[string] { l := trials.List[string](s); return &l }
	two, none := 2, 0
	for name, c := range map[string]struct {
		change func(*trials.DatasetConfig)
		want   []string
	}{
		"all":              {func(*trials.DatasetConfig) {}, []string{"alpha", "beta", "gamma"}},
		"included":         {func(d *trials.DatasetConfig) { d.TaskNames = list("*ta", "gamma") }, []string{"beta", "gamma"}},
		"excluded":         {func(d *trials.DatasetConfig) { d.ExcludeTaskNames = list("b*") }, []string{"alpha", "gamma"}},
		"both":             {func(d *trials.DatasetConfig) { d.TaskNames, d.ExcludeTaskNames = list("*a"), list("gamma") }, []string{"alpha", "beta"}},
		"limited":          {func(d *trials.DatasetConfig) { d.NTasks = &two }, []string{"alpha", "beta"}},
		"limit after that": {func(d *trials.DatasetConfig) { d.NTasks, d.ExcludeTaskNames = &two, list("alpha") }, []string{"beta", "gamma"}},
		"limit of none":    {func(d *trials.DatasetConfig) { d.NTasks = &none }, []string{}},
		"empty filters":    {func(d *trials.DatasetConfig) { d.TaskNames, d.ExcludeTaskNames = list(), list() }, []string{"alpha", "beta", "gamma"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := jobOf(t, set)
			c.change(&cfg.Datasets[0])
			p, err := NewPlan(cfg, "id")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, names(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, x := range p.Trials {
				if s := x.Config.Task.Source; s == nil || *s != "set" {
					t.Errorf("source %v", s)
				}
			}
		})
	}
}

func TestPlanExpandsAttemptsTasksAndAgents(t *testing.T) {
	t.Parallel()
	cfg := jobOf(t, threeTasks(t))
	cfg.NAttempts = 2
	oracle, nop := "oracle", "nop"
	cfg.Agents = trials.List[trials.AgentConfig]{{Name: &oracle}, {Name: &nop}}
	p, err := NewPlan(cfg, "id")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	seen := map[string]bool{}
	for _, x := range p.Trials {
		got = append(got, fmt.Sprintf("%d %s %s", x.Attempt, x.Task.Name, x.Config.Agent.AgentName()))
		if seen[x.Name] || *x.Config.JobID != "id" || !strings.HasPrefix(x.Name, x.Task.Name+"__") {
			t.Errorf("trial %s of job %s", x.Name, *x.Config.JobID)
		}
		seen[x.Name] = true
	}
	want := []string{
		"1 alpha oracle", "1 alpha nop", "1 beta oracle", "1 beta nop", "1 gamma oracle", "1 gamma nop",
		"2 alpha oracle", "2 alpha nop", "2 beta oracle", "2 beta nop", "2 gamma oracle", "2 gamma nop",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.Trials[0].Task != p.Trials[1].Task {
		t.Error("one task was read twice")
	}
}

func TestInvalidTasksAreListedAndLeftOut(t *testing.T) {
	t.Parallel()
	set := threeTasks(t)
	if err := os.WriteFile(filepath.Join(set, "beta", "task.toml"), []byte("[agent]\ntimeout_sec = -1\nnonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(set, "gamma", "tests", "test.sh")); err != nil {
		t.Fatal(err)
	}
	cfg := jobOf(t, set)
	p, err := NewPlan(cfg, "id")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alpha"}, names(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(p.Invalid) != 2 || p.Invalid[0].Name() != "beta" || p.Invalid[0].Problems.Err() == nil {
		t.Errorf("invalid %+v", p.Invalid)
	}
	cfg.Verifier.Disable = true // then a test script is not needed
	if p, err = NewPlan(cfg, "id"); err != nil || len(p.Trials) != 2 {
		t.Errorf("%v %v", names(p), err)
	}
}

func TestPlanOfTasksByPath(t *testing.T) {
	t.Parallel()
	set := threeTasks(t)
	cfg := jobOf(t, set)
	cfg.Datasets = nil
	b, a := filepath.Join(set, "beta"), filepath.Join(set, "alpha")
	cfg.Tasks = trials.List[trials.TaskConfig]{{Path: &b}, {Path: &a}}
	p, err := NewPlan(cfg, "id")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"beta", "alpha"}, names(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.Trials[0].Config.Task.Source != nil {
		t.Error("a task that was named itself has no data set")
	}
}

func TestPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	set := threeTasks(t)
	text := func(s string) *string { return &s }
	globs := trials.List[string]{"delta*"}
	for name, c := range map[string]struct {
		change func(*trials.JobConfig)
		said   string
	}{
		"no match":     {func(c *trials.JobConfig) { c.Datasets[0].TaskNames = &globs }, "it has 3 tasks, for example alpha, beta, gamma"},
		"no directory": {func(c *trials.JobConfig) { c.Datasets[0].Path = text(set + "/none") }, "no such directory"},
		"registry":     {func(c *trials.JobConfig) { c.Datasets[0] = trials.DatasetConfig{Name: text("x")} }, "registry is not supported yet"},
		"repository":   {func(c *trials.JobConfig) { c.Datasets[0] = trials.DatasetConfig{Repo: text("x")} }, "git repository is not supported yet"},
		"task from git": {func(c *trials.JobConfig) {
			c.Tasks = trials.List[trials.TaskConfig]{{Path: text("x"), GitURL: text("y")}}
		}, "not supported yet"},
		"package":        {func(c *trials.JobConfig) { c.Tasks = trials.List[trials.TaskConfig]{{Name: text("org/x")}} }, "org/x"},
		"task of nobody": {func(c *trials.JobConfig) { c.Tasks = trials.List[trials.TaskConfig]{{}} }, "no path"},
		"several tasks":  {func(c *trials.JobConfig) { c.Tasks = trials.List[trials.TaskConfig]{{Path: &set}} }, "directory of tasks"},
	} {
		cfg := jobOf(t, set)
		c.change(&cfg)
		if p, err := NewPlan(cfg, "id"); err == nil || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v %v, want %q", name, p, err, c.said)
		}
	}
}

func TestVariablesOfThePlan(t *testing.T) {
	t.Parallel()
	set := filepath.Join(t.TempDir(), "set")
	putTask(t, set, "a", "true", taskToml+"[environment.env]\nX = \"${PLAIN}\"\nY = \"${PLAIN}\"\nZ = \"${UNSET:-d}\"\nOWN = \"${OWN}\"\n")
	putTask(t, set, "b", "true", strings.Replace(taskToml, "[verifier]\n", "[verifier]\nenv = {J = \"${JUDGE}\", P = \"${PLAIN}\"}\n", 1)+"[solution.env]\nS = \"${SOLVE}\"\n")
	lookup := hostOf(t, map[string]string{"PLAIN": "1", "JUDGE": "2", "SOLVE": "3", "OWN": "4"})
	cfg := jobOf(t, set)
	cfg.NAttempts = 3
	cfg.Environment.Env = trials.Env{"OWN": "set by the job"}
	for agent, want := range map[string]string{"oracle": "JUDGE 1, PLAIN 2, SOLVE 1", "nop": "JUDGE 1, PLAIN 2"} {
		cfg.Agents = trials.List[trials.AgentConfig]{{Name: &agent}}
		p, err := NewPlan(cfg, "id")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range p.Variables(lookup) {
			got = append(got, fmt.Sprintf("%s %d", v.Name, v.Tasks))
			if v.Where == "" {
				t.Errorf("%s: nobody knows where", v.Name)
			}
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s, want %s", agent, s, want)
		}
	}
}
