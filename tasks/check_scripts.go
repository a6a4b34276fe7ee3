package tasks

import (
	"bytes"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
)

// maxScanned is how much of a file is looked at.
const maxScanned = 1 << 20

// units are the parts with scripts of their own: the task, or its steps.
func (c *checker) units() []*Step {
	if !c.task.Multistep() {
		return []*Step{nil}
	}
	var out []*Step
	for i := range c.task.Config.Steps {
		out = append(out, &c.task.Config.Steps[i])
	}
	return out
}

func (c *checker) scripts() {
	seen := map[string]bool{}
	for _, step := range c.units() {
		solution, ok := c.task.SolutionScript(step)
		if !ok {
			c.add(SeverityWarning, c.unitDir(step), 0, "missing-solution", "add solution/solve.sh",
				"there is no solution: the oracle agent cannot show that the task can be solved")
		}
		test, _ := c.task.TestScript(step)
		for _, p := range []string{test, solution} {
			if p != "" && !seen[p] && filepath.Ext(p) == ".sh" {
				seen[p] = true
				c.script(p)
			}
		}
	}
}

func (c *checker) unitDir(step *Step) string {
	if step == nil {
		return c.task.Dir
	}
	return c.task.stepDir(step)
}

// script looks at the first line, which decides what runs the script.
func (c *checker) script(p string) {
	b, err := readHead(p)
	if err != nil {
		c.add(SeverityError, p, 0, "unreadable-file", "make it readable", "cannot be read: %v", err)
		return
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		c.add(SeverityWarning, p, 0, "empty-script", "write it", "the script is empty")
	case !bytes.HasPrefix(line, []byte("#!")):
		c.add(SeverityWarning, p, 1, "no-shebang", "begin it with #!/bin/sh", "nothing says what runs the script")
	case bytes.HasSuffix(line, []byte("\r")):
		c.add(SeverityError, p, 1, "crlf-script", "save it with Unix line ends",
			"the first line ends with a carriage return, so no interpreter is found")
	}
}

var rewardPattern = regexp.MustCompile(`reward\.(txt|json)`)

// rewards warns when nothing among the tests writes a reward.
func (c *checker) rewards() {
	for _, step := range c.units() {
		dirs := c.task.TestDirs(step)
		test, ok := c.task.TestScript(step)
		if !ok || slices.ContainsFunc(dirs, func(d string) bool { return anyFileMatches(d, rewardPattern) }) {
			continue
		}
		c.add(SeverityWarning, test, 0, "no-reward", "write a number to /logs/verifier/reward.txt",
			"nothing in tests/ names reward.txt or reward.json, so there will be no reward")
	}
}

var downloadPattern = regexp.MustCompile(`(?m)^[^#\n]*\b(curl|wget|apt-get|apk add|pip3? install|uvx?|npm (install|ci)|git clone)\b`)

// downloads warns about test scripts that fetch things where there is no network.
func (c *checker) downloads() {
	for _, step := range c.units() {
		test, ok := c.task.TestScript(step)
		if !ok || c.task.verifierNetwork(step).Mode == NetworkPublic {
			continue
		}
		b, err := readHead(test)
		if err != nil {
			continue
		}
		if at := downloadPattern.FindSubmatchIndex(b); at != nil {
			c.add(SeverityWarning, test, 1+bytes.Count(b[:at[2]], []byte("\n")), "verifier-download",
				"install it in the image", "the verifier has no open network, but the script calls %s", b[at[2]:at[3]])
		}
	}
}

// verifierNetwork is the network in which the task, or one of its steps, is
// verified.
func (t *Task) verifierNetwork(step *Step) Network {
	if step != nil && step.Verifier.Network.Mode != "" {
		return step.Verifier.Network
	}
	if n := t.Config.Verifier.Network; n.Mode != "" {
		return n
	}
	if t.VerifierMode(step) == VerifierSeparate {
		return t.VerifierSource(step).Environment.Network
	}
	return t.Config.Environment.Network
}

func headMatches(path string, pattern *regexp.Regexp) bool {
	b, err := readHead(path)
	return err == nil && pattern.Match(b)
}

func anyFileMatches(dir string, pattern *regexp.Regexp) bool {
	found := false
	// What cannot be read does not match.
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && headMatches(p, pattern) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

func readHead(p string) ([]byte, error) {
	f, err := openRegular(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(info.Size(), maxScanned))
	n, err := f.ReadAt(b, 0)
	if n == len(b) {
		err = nil
	}
	return b[:n], err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
