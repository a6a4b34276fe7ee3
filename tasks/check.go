package tasks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Check looks for everything that is wrong or doubtful with the tasks that a path
// names (see Find): what Load says, and what lets trials fail later. Nothing is
// run. When ctx ends, tasks that were not looked at yet are left out.
func Check(ctx context.Context, path string) Problems {
	found, problem := list(path)
	if problem != nil {
		return Problems{*problem}
	}
	each(found, func(f *Found) {
		if ctx.Err() == nil {
			f.Problems = checkOne(f.Path)
		}
	})
	var out Problems
	for _, f := range found {
		out = append(out, f.Problems...)
	}
	return out
}

func checkOne(dir string) Problems {
	t, problems := examine(dir, LoadOptions{})
	if t == nil {
		return problems
	}
	c := &checker{task: t, problems: problems}
	for _, check := range []func(*checker){
		(*checker).image, (*checker).allowLists, (*checker).artifacts, (*checker).stepDirs,
		(*checker).scripts, (*checker).rewards, (*checker).downloads, (*checker).dockerfiles, (*checker).needs,
	} {
		check(c)
	}
	return c.problems
}

// checker collects what is doubtful about one task.
type checker struct {
	task     *Task
	problems Problems
}

// add reports about a file; line 0 is the file as a whole.
func (c *checker) add(s Severity, file string, line int, code, next, format string, args ...any) {
	p := Problem{File: file, Line: line, Severity: s, Code: code, Next: next, Message: fmt.Sprintf(format, args...)}
	if line > 0 {
		p.Column = 1
	}
	c.problems = append(c.problems, p)
}

func (c *checker) config() string { return filepath.Join(c.task.Dir, ConfigFile) }

// image notes a docker_image that is written but blank, as templates have it.
func (c *checker) image() {
	content, err := readRegular(c.config())
	if err != nil {
		return
	}
	d := &document{file: c.config(), source: content}
	root := d.parse()
	if root == nil {
		return
	}
	env, _ := root.keys[EnvironmentDir].(map[string]any)
	if text, ok := env["docker_image"].(string); ok && strings.TrimSpace(text) == "" {
		d.add(SeverityInfo, "blank-image", "environment.docker_image", "remove it", "environment.docker_image is blank and means nothing")
	}
	c.problems = append(c.problems, d.problems...)
}

func (c *checker) allowLists() {
	networks := map[string]Network{}
	for _, e := range c.task.environments() {
		networks[e.name] = e.Network
	}
	for _, p := range c.task.phases() {
		networks[p.name] = p.network
	}
	for _, name := range sortedKeys(networks) {
		if n := networks[name]; n.Mode == NetworkAllowList && len(n.Hosts) == 0 {
			c.add(SeverityWarning, c.config(), 0, "empty-allowlist", `list hosts, or write "no-network"`,
				"%s has an allow list without hosts: there is no network", name)
		}
	}
}

// artifacts looks for those that would be written over each other.
func (c *checker) artifacts() {
	for _, list := range c.task.artifactLists() {
		for i, a := range list {
			for _, b := range list[:i] {
				if overlap(a.Target(), b.Target()) {
					c.add(SeverityWarning, c.config(), 0, "overlapping-artifacts", "give one of them another destination",
						"artifacts %s and %s are kept at the same place; only the first is", b.Source, a.Source)
				}
			}
		}
	}
}

// stepDirs looks for directories of steps that task.toml does not name.
func (c *checker) stepDirs() {
	entries, err := os.ReadDir(filepath.Join(c.task.Dir, StepsDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && c.task.Step(e.Name()) == nil {
			c.add(SeverityWarning, filepath.Join(c.task.Dir, StepsDir, e.Name()), 0, "unlisted-step",
				"add [[steps]] to task.toml, or remove the directory", "the step is not listed in task.toml")
		}
	}
}

// needs lists what not every provider and agent can do.
func (c *checker) needs() {
	for _, n := range append(c.task.Needs(), c.task.AgentNeeds()...) {
		c.add(SeverityInfo, c.config(), 0, "need-"+string(n.Feature), "run it where that is supported", "%s", n.Why)
	}
}
