package trials

import (
	"strings"
	"testing"
)

// locked is the lock of a trial of a task with a version, "" for none.
func locked(version, digest string) TrialLock {
	name, mode := "nop", "separate"
	l := TrialLock{SchemaVersion: TrialLockSchema, Agent: AgentConfig{Name: &name}, Verifier: VerifierLock{EnvironmentMode: &mode}}
	l.Task = TaskLock{Name: "org/a", Digest: digest}
	if version != "" {
		l.Task.Version = &version
	}
	return l
}

func TestDiffVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was, is string
		want    DiffAction
	}{
		{"1.0.0", "1.0.0", DiffReuse},
		{"1.0.0", "1.0.7", DiffReuse},
		{"1.0.7", "1.0.0", DiffReuse},
		{"1.0.0", "1.1.0", DiffRegrade},
		{"1.2.0", "1.1.5", DiffRegrade},
		{"1.0.0", "2.0.0", DiffRerun},
		{"1.0.0", "1.0.0-rc1", DiffRerun},
		{"1.0", "1.0", DiffRerun},
		{"", "", DiffRerun},
		{"", "1.0.0", DiffRerun},
		{"01.0.0", "01.0.0", DiffRerun},
	} {
		was, is := locked(c.was, "x"), locked(c.is, "y")
		if c.was == c.is {
			is.Task.Digest = "x"
		}
		got, err := Diff([]TrialLock{is}, []DiffSource{{Name: "t", Lock: was, Usable: true}})
		if err != nil || got[0].Action != c.want || got[0].Why == "" || (got[0].Source == 0) != (c.want != DiffRerun) {
			t.Errorf("%s to %s: %+v %v", c.was, c.is, got, err)
		}
	}
}

func TestDiffNeedsAnOutcomeAndTheSameTrial(t *testing.T) {
	t.Parallel()
	was := locked("1.0.0", "x")
	shared := "shared"
	for name, change := range map[string]func(target *TrialLock, source *DiffSource){
		"no outcome":    func(_ *TrialLock, s *DiffSource) { s.Usable = false },
		"another task":  func(l *TrialLock, _ *DiffSource) { l.Task.Name = "org/b" },
		"another model": func(l *TrialLock, _ *DiffSource) { l.Agent.ModelName = &shared },
		"other time":    func(l *TrialLock, _ *DiffSource) { l.Timeout = 3 },
		"shared tests": func(l *TrialLock, s *DiffSource) {
			l.Verifier.EnvironmentMode, s.Lock.Verifier.EnvironmentMode = &shared, &shared
			version := "1.1.0"
			l.Task.Version = &version
		},
	} {
		target, source := locked("1.0.0", "x"), DiffSource{Name: "t", Lock: was, Usable: true}
		change(&target, &source)
		got, err := Diff([]TrialLock{target}, []DiffSource{source})
		if err != nil || got[0].Action != DiffRerun || got[0].Source != -1 {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	// What changes no verdict is no difference.
	target := locked("1.0.0", "x")
	n := 3
	target.Agent.NConcurrent, target.Environment.Delete = &n, true
	if got, err := Diff([]TrialLock{target}, []DiffSource{{Lock: was, Usable: true}}); err != nil || got[0].Action != DiffReuse {
		t.Error(got, err)
	}
}

// TestDiffConsumesSources holds that an earlier trial stands for one only, and that the
// one that needs least is taken.
func TestDiffConsumesSources(t *testing.T) {
	t.Parallel()
	sources := []DiffSource{
		{Name: "minor", Lock: locked("1.1.0", "x"), Usable: true}, {Name: "same", Lock: locked("1.2.0", "y"), Usable: true},
		{Name: "broken", Lock: locked("1.2.0", "y")},
	}
	target := locked("1.2.0", "y")
	got, err := Diff([]TrialLock{target, target, target}, sources)
	if err != nil {
		t.Fatal(err)
	}
	want := []Decision{{DiffReuse, 1, ""}, {DiffRegrade, 0, ""}, {DiffRerun, -1, ""}}
	for i, w := range want {
		if got[i].Action != w.Action || got[i].Source != w.Source {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
}

func TestDiffRefusesTasksThatChangedUnseen(t *testing.T) {
	t.Parallel()
	_, err := Diff([]TrialLock{locked("1.0.0", "y")}, []DiffSource{{Name: "a__1", Lock: locked("1.0.0", "x"), Usable: true}})
	if err == nil || !strings.Contains(err.Error(), "org/a has version 1.0.0 in the earlier trial a__1 too") {
		t.Error(err)
	}
}
