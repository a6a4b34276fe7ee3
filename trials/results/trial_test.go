package results

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

func TestTrialBegins(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	path := "tasks/x"
	c := trials.NewTrialConfig(trials.TaskConfig{Path: &path})
	c.TrialName = "trial"
	c.Agent.Env = trials.Env{"MY_API_KEY": "sk-0123456789abcdef", "PLAIN": "shown"}
	if err := tr.Begin(&c, &trials.TrialLock{}); err != nil {
		t.Fatal(err)
	}
	got := stored(t, tr, ".")
	for _, name := range []string{"agent/", "verifier/", "artifacts/", "artifacts/logs/artifacts/", LockFile, ConfigFile, TrialLogFile} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if s := got[ConfigFile]; strings.Contains(s, "0123456789") || !strings.Contains(s, "shown") {
		t.Errorf("config.json: %s", s)
	}
	if c.Agent.Env["MY_API_KEY"] != "sk-0123456789abcdef" {
		t.Error("the configuration itself was redacted")
	}
	if !strings.HasPrefix(tr.URI(), "file:///") || !strings.HasSuffix(tr.URI(), "/job/trial") {
		t.Errorf("URI %s", tr.URI())
	}
}

func TestResultIsWrittenWithoutSecrets(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	r := &trials.Result{TrialName: "trial", Config: trials.TrialConfig{SchemaVersion: 1}}
	r.Config.Verifier.Env = trials.Env{"JUDGE_TOKEN": "tok-0123456789abcdef"}
	if err := tr.Finish(r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(tr.Path(ResultFile))
	if err != nil || strings.Contains(string(b), "0123456789") {
		t.Errorf("%s %v", b, err)
	}
	if r.Config.Verifier.Env["JUDGE_TOKEN"] != "tok-0123456789abcdef" {
		t.Error("the result itself was redacted")
	}
	back, err := ReadTrialResult(filepath.Dir(tr.Path(ResultFile)))
	if err != nil || back.TrialName != "trial" {
		t.Errorf("%+v %v", back, err)
	}
}

func TestEarlierTriesAreKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "trial")
	for try := 1; try <= 3; try++ {
		tr, err := NewTrial(dir, try, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.Write("agent/log.txt", []byte{byte('0' + try)}); err != nil {
			t.Fatal(err)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"agent/log.txt": "3", "tries/1/agent/log.txt": "1", "tries/2/agent/log.txt": "2", "tries/1/trial.log": ""} {
		if b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tries", "2", "tries")); err == nil {
		t.Error("tries were put into tries")
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	for _, c := range []struct {
		content string
		want    string
	}{{"", ""}, {"ab", "ab"}, {"abcdef", "abcdef"}, {"abcdefg", "abcefg"}, {"abc----------xyz", "abcxyz"}} {
		if err := tr.Write("f", []byte(c.content)); err != nil {
			t.Fatal(err)
		}
		if got, err := tr.Ends("f", 3); err != nil || string(got) != c.want {
			t.Errorf("%q: %q %v, want %q", c.content, got, err, c.want)
		}
	}
}

func TestLoggerWritesToBoth(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	var base strings.Builder
	log := tr.Logger(slog.New(slog.NewTextHandler(&base, &slog.HandlerOptions{Level: slog.LevelWarn})))
	log.Debug("detail")
	log.Warn("trouble", "n", 1)
	b, err := os.ReadFile(tr.Path(TrialLogFile))
	if err != nil || !strings.Contains(string(b), "detail") || !strings.Contains(string(b), "trouble") || !strings.Contains(string(b), "time=") {
		t.Errorf("trial.log: %s %v", b, err)
	}
	if s := base.String(); strings.Contains(s, "detail") || !strings.Contains(s, "trouble") || !strings.Contains(s, "trial=trial") {
		t.Errorf("the base has %s", s)
	}
}

func TestRemoveOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	if err := tr.Remove("none"); err != nil {
		t.Error(err)
	}
	if err := tr.Write("d/e/f", nil); err != nil {
		t.Fatal(err)
	}
	if err := tr.Remove("d"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{TrialLogFile: ""}, stored(t, tr, ".")); diff != "" {
		t.Error(diff)
	}
	if err := tr.Remove("../../elsewhere"); err == nil {
		t.Error("a name that leads outside was removed")
	}
}

func TestTrialDirectoryThatCannotBe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
	if tr, err := NewTrial(filepath.Join(file, "trial"), 1, DefaultLimits()); err == nil {
		t.Errorf("%+v", tr)
	}
}
