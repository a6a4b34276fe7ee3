package trials

import (
	"fmt"
	"regexp"
)

// DiffAction is what a trial needs when an earlier job may have done it already.
type DiffAction string

// What a trial may need, the least first.
const (
	DiffReuse   DiffAction = "reuse"   // nothing: the earlier verdict stands
	DiffRegrade DiffAction = "regrade" // the earlier work under the tests of today
	DiffRerun   DiffAction = "rerun"   // everything
)

// DiffActions lists them, the least first.
func DiffActions() []DiffAction { return []DiffAction{DiffReuse, DiffRegrade, DiffRerun} }

// DiffSource is a trial of an earlier job.
type DiffSource struct {
	Name string // for messages
	Lock TrialLock
	// Usable says that the trial ended and that its outcome counts: it has a verdict, or
	// verification was off and nothing went wrong.
	Usable bool
}

// Decision is what a trial needs, and why.
type Decision struct {
	Action DiffAction
	Source int // index of the earlier trial; -1 for a rerun
	Why    string
}

// Diff decides for each trial that is wanted what it needs. An earlier trial stands for
// one at most, and only for one that would do the same: same task by name, same
// configuration. Then versions of the task decide: the same one, or another patch level,
// changes no verdict; another minor level changes the tests; anything else changes the
// task. Both sides' locks must be redacted alike.
//
// It is an error when a task changed and its version did not.
func Diff(targets []TrialLock, sources []DiffSource) ([]Decision, error) {
	keys := make([]string, len(sources))
	for i, s := range sources {
		key, err := diffKey(s.Lock)
		if err != nil {
			return nil, fmt.Errorf("trial %s: %w", s.Name, err)
		}
		keys[i] = key
	}
	taken := make([]bool, len(sources))
	out := make([]Decision, 0, len(targets))
	for _, t := range targets {
		key, err := diffKey(t)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", t.Task.Name, err)
		}
		best := Decision{DiffRerun, -1, "no earlier trial did the same"}
		for i, s := range sources {
			if taken[i] || keys[i] != key {
				continue
			}
			d, err := decide(t, s)
			if err != nil {
				return nil, err
			}
			d.Source = i
			if best.Source < 0 || less(d.Action, best.Action) {
				best = d
			}
		}
		if best.Action == DiffRerun {
			best.Source = -1
		} else {
			taken[best.Source] = true
		}
		out = append(out, best)
	}
	return out, nil
}

func less(a, b DiffAction) bool {
	for _, x := range DiffActions() {
		if x == a || x == b {
			return x == a && a != b
		}
	}
	return false
}

// diffKey is equal for trials of a task that do the same. What changes no verdict is
// left out.
func diffKey(l TrialLock) (string, error) {
	name := l.Task.Name
	l.Task, l.SourceTrial = TaskLock{}, nil
	l.Agent.NConcurrent, l.Agent.ConcurrencyGroup = nil, nil
	l.Environment.ForceBuild, l.Environment.Delete, l.Environment.Stream = false, false, false
	b, err := MarshalLock(l)
	return name + "\n" + string(b), err
}

func decide(t TrialLock, s DiffSource) (Decision, error) {
	is, was := deref(t.Task.Version), deref(s.Lock.Task.Version)
	if is == was && is != "" && t.Task.Digest != s.Lock.Task.Digest {
		return Decision{}, fmt.Errorf("task %s has version %s in the earlier trial %s too, but other files: raise [task].version in its task.toml",
			t.Task.Name, is, s.Name)
	}
	if !s.Usable {
		return Decision{Action: DiffRerun, Why: "the earlier trial has no outcome that counts"}, nil
	}
	action, why := byVersion(was, is)
	if action == DiffRegrade && deref(t.Verifier.EnvironmentMode) != "separate" {
		action, why = DiffRerun, why+" that need the agent's sandbox"
	}
	return Decision{Action: action, Why: why}, nil
}

// byVersion is what a change of a task's version asks for.
func byVersion(was, is string) (DiffAction, string) {
	a, b := parseSemver(was), parseSemver(is)
	change := "version " + was + " to " + is
	switch {
	case a == nil || b == nil:
		return DiffRerun, "the task has no version of the form 1.2.3"
	case is == was:
		return DiffReuse, "same version " + is
	case a.rest != "" || b.rest != "" || a.major != b.major:
		return DiffRerun, change
	case a.minor == b.minor:
		return DiffReuse, change + ", a patch"
	}
	return DiffRegrade, change + ", other tests"
}

type semver struct{ major, minor, rest string }

// semverPattern is that of semver.org, numbers without leading zeros.
var semverPattern = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(?:0|[1-9]\d*)((?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)$`)

func parseSemver(s string) *semver {
	m := semverPattern.FindStringSubmatch(s)
	if m == nil {
		return nil
	}
	return &semver{m[1], m[2], m[3]}
}
