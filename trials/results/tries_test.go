package results

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	out := []string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// B116: each try has its own directory, and the earlier ones are kept.
func TestB116EarlierTriesAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 {
		write(t, dir, ResultFile, "agent/log")
		if begun, err := Begun(dir); !begun || err != nil {
			t.Errorf("try %d: %v %v", i, begun, err)
		}
		if n, err := Archive(dir); n != i+1 || err != nil {
			t.Fatal(n, err)
		}
		if begun, err := Begun(dir); begun || err != nil {
			t.Errorf("archived %d: %v %v", i, begun, err)
		}
	}
	if n, err := Archive(dir); n != 0 || err != nil { // nothing there: nothing happens
		t.Fatal(err)
	}
	want := []string{"tries/1/agent/log", "tries/1/result.json", "tries/2/agent/log", "tries/2/result.json", "tries/3/agent/log", "tries/3/result.json"}
	if diff := cmp.Diff(want, files(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, err := Tries(dir); n != 3 || err != nil {
		t.Errorf("%d tries, %v", n, err)
	}
}

// A process that dies while a try moves leaves it to the next one to finish.
func TestMoveThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	for name, left := range map[string][]string{
		"half of it had moved":         {"tries/1/x", "tries/.moving/result.json", "agent/log"},
		"all had moved but for a name": {"tries/1/x", "tries/.moving/result.json", "tries/.moving/agent/log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, left...)
			if n, err := Archive(dir); n != 2 || err != nil {
				t.Fatal(n, err)
			}
			want := []string{"tries/1/x", "tries/2/agent/log", "tries/2/result.json"}
			if diff := cmp.Diff(want, files(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// B111: only tries that failed by themselves are retries.
func TestB111FailedTries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	result := func(exception string) string {
		return `{"trial_name": "x", "finished_at": "2026-01-02T03:04:05Z", "exception_info": ` + exception + `}`
	}
	for i, content := range []string{result(`{"exception_type": "HealthcheckError"}`), result(`{"exception_type": "CancelledError"}`), "", result("null")} {
		try := filepath.Join(dir, TriesDir, string(rune('1'+i)))
		write(t, try, "trial.log")
		if content != "" {
			if err := os.WriteFile(filepath.Join(try, ResultFile), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n, err := Failed(dir); n != 1 || err != nil {
		t.Errorf("%d failed, %v: want 1", n, err)
	}
	if n, err := Failed(t.TempDir()); n != 0 || err != nil {
		t.Errorf("without tries: %d, %v", n, err)
	}
}

// A try that is put back takes its own number again when it is archived once more.
func TestPutBackTryKeepsItsNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := func(n string) {
		t.Helper()
		write(t, dir, "agent/log"+n)
		content := `{"trial_name": "x", "finished_at": "2026-01-02T03:04:05Z", "harborgate": {"try": ` + n + `}}`
		if err := os.WriteFile(filepath.Join(dir, ResultFile), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	archived := func(want int) {
		t.Helper()
		if n, err := Archive(dir); n != want || err != nil {
			t.Fatalf("archived as %d, want %d: %v", n, want, err)
		}
	}
	begin("1")
	archived(1)
	for _, cut := range []string{"2", "3"} {
		begin(cut)
		if err := PutBack(dir, 1); err != nil {
			t.Fatal(err)
		}
		if got := files(t, dir)[:2]; !cmp.Equal(got, []string{"agent/log1", "result.json"}) {
			t.Errorf("in force: %v", got)
		}
		archived(1)
	}
	want := []string{
		"tries/1/agent/log1", "tries/1/result.json", "tries/2/agent/log2", "tries/2/result.json", "tries/3/agent/log3", "tries/3/result.json",
	}
	if diff := cmp.Diff(want, files(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := PutBack(dir, 9); err == nil {
		t.Error("a try that is not there was put back")
	}
}
