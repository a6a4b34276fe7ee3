package results

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// trialNamed writes a result of a trial into a directory of a job.
func trialNamed(t *testing.T, job, dir, name string) {
	t.Helper()
	r, err := ParseTrialResult(golden(t, "harbor-0.26-success.json"), "golden")
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.ReplaceAll(golden(t, "harbor-0.26-success.json"), []byte(`"`+r.TrialName+`"`), []byte(`"`+name+`"`))
	if err := os.MkdirAll(filepath.Join(job, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(job, dir, ResultFile), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCopiedTrialIsNoSecondVerdict(t *testing.T) {
	t.Parallel()
	job := t.TempDir()
	trialNamed(t, job, "good__AAAAAAA", "good__AAAAAAA")
	trialNamed(t, job, "an-earlier-copy", "good__AAAAAAA") // by name it comes first
	trialNamed(t, job, "renamed", "other__BBBBBBB")        // as somebody's archive has it
	trialNamed(t, job, "x-copy-of-renamed", "other__BBBBBBB")
	for name, read := range map[string]func(string) ([]Found, error){"brief": ReadTrials, "whole": ReadWholeTrials} {
		found, err := read(job)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"an-earlier-copy": "good__AAAAAAA", "good__AAAAAAA": "", "renamed": "", "x-copy-of-renamed": "renamed"}
		if len(found) != len(want) {
			t.Fatalf("%s: %d directories, want %d", name, len(found), len(want))
		}
		for _, f := range found {
			of := ""
			if f.CopyOf != "" {
				of = filepath.Base(f.CopyOf)
			}
			if of != want[f.Name()] || (f.Result == nil) != (of != "") || (f.Err != nil) != (of != "") {
				t.Errorf("%s: %s is a copy of %q, want %q (result %v, error %v)", name, f.Name(), of, want[f.Name()], f.Result != nil, f.Err)
			}
		}
	}
}
