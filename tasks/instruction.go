package tasks

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Instruction returns what the agent is told, by the task or by one of its steps:
// the file byte for byte, without a byte order mark and without canary lines at
// its head.
func (t *Task) Instruction(step *Step) (string, error) {
	dir := t.Dir
	if step != nil {
		dir = t.stepDir(step)
	}
	return readInstruction(filepath.Join(dir, InstructionFile))
}

func readInstruction(path string) (string, error) {
	b, err := readRegular(path)
	if err != nil {
		return "", err
	}
	return stripCanary(string(b)), nil
}

// canaryLine matches the comments with which data sets mark their files, so that
// they can be found in training data. They are none of the agent's business.
var canaryLine = regexp.MustCompile(`(?i)^(<!--.*canary.*-->|#.*canary.*)$`)

// stripCanary removes canary lines from the top and the blank lines after them.
func stripCanary(s string) string {
	s = strings.TrimPrefix(s, "\ufeff")
	body := skipLines(s, canaryLine.MatchString)
	if len(body) == len(s) {
		return s
	}
	return skipLines(body, func(line string) bool { return line == "" })
}

// skipLines drops the lines at the head whose trimmed text is to be skipped.
func skipLines(s string, skip func(line string) bool) string {
	for s != "" {
		line, rest, _ := strings.Cut(s, "\n")
		if !skip(strings.TrimSpace(line)) {
			break
		}
		s = rest
	}
	return s
}
