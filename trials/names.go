package trials

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// nameAlphabet has no characters that are easily confused.
const nameAlphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

const (
	taskPartRunes = 32
	randomRunes   = 7
	maxNameBytes  = 255
)

// JobName is the name of a job that was given none: the local start time.
func JobName(start time.Time) string { return start.Format("2006-01-02__15-04-05") }

// TrialName makes a trial's name from the reference of its task (the directory
// of a local or git task, or the package's name): the last component, cut to 32
// characters, "__", and seven random characters. The result is one clean path
// component. random is read for at least seven bytes; its error is returned.
func TrialName(reference string, random io.Reader) (string, error) {
	suffix, err := randomPart(random)
	if err != nil {
		return "", fmt.Errorf("name a trial of task %s: %w", reference, err)
	}
	return taskPart(reference) + "__" + suffix, nil
}

// taskPart keeps what Harbor keeps, except what no directory may be called.
func taskPart(reference string) string {
	s := path.Base(strings.ReplaceAll(reference, `\`, "/"))
	s = strings.Map(func(r rune) rune {
		if r == '/' || r == utf8.RuneError || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > taskPartRunes {
		s = string(runes[:taskPartRunes])
	}
	s = strings.TrimLeft(strings.TrimRight(s, "_-"), ".")
	if s == "" {
		return "task"
	}
	return s
}

// randomPart draws without bias: bytes beyond the last full alphabet are thrown
// away.
func randomPart(random io.Reader) (string, error) {
	const limit = 256 / len(nameAlphabet) * len(nameAlphabet)
	out := make([]byte, 0, randomRunes)
	var b [1]byte
	for len(out) < randomRunes {
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", fmt.Errorf("read random bytes: %w", err)
		}
		if int(b[0]) < limit {
			out = append(out, nameAlphabet[int(b[0])%len(nameAlphabet)])
		}
	}
	return string(out), nil
}

// CheckName reports whether a job's or trial's name is one clean path component:
// not empty, no separator, no control character, at most 255 bytes, and neither
// hidden nor one of the dots.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxNameBytes:
		return fmt.Errorf("name %.40q… is longer than %d bytes", name, maxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("name %q is not UTF-8", name)
	case strings.HasPrefix(name, "."):
		return fmt.Errorf("name %q begins with a dot", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || unicode.IsControl(r) }):
		return fmt.Errorf("name %q contains a path separator or a control character", name)
	}
	return nil
}
