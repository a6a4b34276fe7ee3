package tasks

import (
	"errors"
	"fmt"
	"strings"
)

// Severity says what a problem does.
type Severity uint8

// Severities, the worst last.
const (
	SeverityInfo    Severity = iota // worth knowing, changes nothing
	SeverityWarning                 // the task runs, perhaps not as meant
	SeverityError                   // the task does not run
)

var severityNames = [...]string{"info", "warning", "error"}

func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "error"
}

// MarshalText writes the name, for JSON output.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Problem is one thing that a user should know about a file.
type Problem struct {
	File     string   `json:"file"`             // path that the user can open
	Line     int      `json:"line,omitempty"`   // from 1; 0 is the file as a whole
	Column   int      `json:"column,omitempty"` // in bytes, from 1
	Severity Severity `json:"severity"`
	Code     string   `json:"code"` // stable, for filters: "unknown-key"
	Message  string   `json:"message"`
	Next     string   `json:"next,omitempty"` // what to do about it
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	fmt.Fprintf(&b, ": %s", p.Message)
	if p.Next != "" {
		fmt.Fprintf(&b, " (%s)", p.Next)
	}
	return b.String()
}

// Problems is a list of problems in the order of the files.
type Problems []Problem

// Err joins the errors of the list, nil when there is none. Warnings are no
// errors.
func (ps Problems) Err() error {
	var errs []error
	for _, p := range ps {
		if p.Severity == SeverityError {
			errs = append(errs, errors.New(p.String()))
		}
	}
	return errors.Join(errs...)
}

// Least returns the problems that are at least as bad as s.
func (ps Problems) Least(s Severity) Problems {
	var out Problems
	for _, p := range ps {
		if p.Severity >= s {
			out = append(out, p)
		}
	}
	return out
}
