package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/snapshots"
	"harborgate/tasks"
	"harborgate/trials"
	"harborgate/trials/results"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// helloToml is a task whose phases all have limits.
const helloToml = `schema_version = "1.4"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
[environment]
build_timeout_sec = 60.0
`

// hello is a task that can be solved. Files of a test replace or add to its own.
func hello() map[string]string {
	return map[string]string{
		"task.toml":              helloToml,
		"instruction.md":         "Greet.\n",
		"environment/Dockerfile": "FROM debian\nWORKDIR /app\n",
		"solution/solve.sh":      "#!/bin/sh\necho hi > /app/out.txt\n",
		"tests/test.sh":          "#!/bin/sh\nif [ \"$(cat /app/out.txt)\" = hi ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
	}
}

// rig is everything that one try needs, in memory but for its files.
type rig struct {
	t       *testing.T
	world   *fake.World
	runner  *Runner
	events  *recorder
	try     Try
	dir     string // of the trial
	removed []string
	options func(*Options)
}

// newRig makes a try of the task hello with some files replaced; "" removes one.
func newRig(t *testing.T, files map[string]string) *rig {
	t.Helper()
	r := &rig{t: t, world: fake.NewWorld(), events: &recorder{}}
	r.try.Task = writeTask(t, files)
	jobs := t.TempDir()
	r.dir = filepath.Join(jobs, "trial")
	sink, err := results.NewTrial(r.dir, 1, results.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	path, job := r.try.Task.Dir, "5e0c1f0e-0000-4000-8000-000000000000"
	c := trials.NewTrialConfig(trials.TaskConfig{Path: &path})
	c.TrialName, c.TrialsDir, c.JobID = "trial", jobs, &job
	r.try.Config, r.try.Lock, r.try.Sink = &c, &trials.TrialLock{}, sink
	r.try.Job, r.try.ID, r.try.Attempt, r.try.Number = "job", "id", 1, 1
	return r
}

func writeTask(t *testing.T, files map[string]string) *tasks.Task {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	all := hello()
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		if content == "" {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	task, problems := tasks.Load(dir, tasks.LoadOptions{NoVerification: true})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return task
}

// agent chooses the agent of the try.
func (r *rig) agent(name string, kwargs map[string]any) *rig {
	r.try.Config.Agent.Name, r.try.Config.Agent.Kwargs = &name, kwargs
	return r
}

// command makes the agent a shell command.
func (r *rig) command(line string) *rig {
	return r.agent("command", map[string]any{"command": line})
}

// run executes the try and waits for its removals. Whatever happened, no
// sandbox may be left and the result must be on disk.
func (r *rig) run(ctx context.Context) *trials.Result {
	r.t.Helper()
	provider := fake.New(fake.Options{World: r.world})
	store, err := snapshots.Open(filepath.Join(r.t.TempDir(), "snapshots"), slog.New(slog.DiscardHandler))
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	var mu sync.Mutex
	opt := Options{
		Provider: provider, Images: NewImages(ImagesOptions{Provider: provider, Store: store, Owner: "owner", Host: "host"}), Events: r.events,
		Lookup: func(string) (string, bool) { return "", false },
		Owner:  "owner", Host: "host", Logger: slog.New(slog.DiscardHandler),
		OnRemoved: func(trial string, id providers.ID, err error) {
			mu.Lock()
			defer mu.Unlock()
			line := trial + " " + string(id)
			if err != nil {
				line += " " + err.Error()
			}
			r.removed = append(r.removed, line)
		},
	}
	if r.options != nil {
		r.options(&opt)
	}
	r.runner = New(opt)
	res := r.runner.Run(ctx, &r.try)
	r.runner.Wait()
	if n := r.world.Left(); n != 0 {
		r.t.Errorf("%d sandboxes are left", n)
	}
	stored, err := results.ReadTrialResult(r.dir)
	if err != nil {
		r.t.Fatalf("result on disk: %v", err)
	}
	if stored.RewardValid != res.RewardValid || exception(stored) != exception(res) || !stored.Finished() {
		r.t.Errorf("result on disk says %v %q, the returned one %v %q", stored.RewardValid, exception(stored), res.RewardValid, exception(res))
	}
	return res
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, f func(*testing.T)) {
	t.Parallel()
	synctest.Test(t, f)
}

func (r *rig) file(name string) string {
	b, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(name)))
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(b)
}

func (r *rig) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(r.dir, filepath.FromSlash(name)))
	return err == nil
}

// manifest returns the status of each artifact by its source.
func (r *rig) manifest() map[string]manifestEntry {
	r.t.Helper()
	var list []manifestEntry
	if err := json.Unmarshal([]byte(r.file(manifestFile)), &list); err != nil {
		r.t.Fatalf("manifest: %v", err)
	}
	out := map[string]manifestEntry{}
	for _, e := range list {
		out[e.Source] = e
	}
	return out
}

func exception(res *trials.Result) string {
	if res.ExceptionInfo == nil {
		return ""
	}
	return res.ExceptionInfo.Type
}

func reward(res *trials.Result) string {
	if res.VerifierResult == nil {
		return "null"
	}
	n, ok := res.VerifierResult.Rewards.Main()
	if !ok {
		return "several"
	}
	return n.String()
}

func notes(res *trials.Result) string {
	var out []string
	for _, n := range res.Harborgate.Notes {
		out = append(out, n.Code+": "+n.Message)
	}
	return strings.Join(out, "\n")
}

func suspicions(res *trials.Result) []string {
	out := []string{}
	for _, s := range res.Harborgate.Suspect {
		out = append(out, s.Code)
	}
	slices.Sort(out)
	return out
}

// want checks the two things that a try ends with.
func want(t *testing.T, res *trials.Result, wantReward, wantException string) {
	t.Helper()
	if got := reward(res); got != wantReward {
		t.Errorf("reward %s, want %s", got, wantReward)
	}
	if got := exception(res); got != wantException {
		t.Errorf("exception %q, want %q", got, wantException)
		if res.ExceptionInfo != nil {
			t.Logf("message: %s", res.ExceptionInfo.Message)
		}
	}
}

// wantFailure checks who is blamed for what.
func wantFailure(t *testing.T, res *trials.Result, phase trials.Phase, cause trials.Cause, blame trials.Blame) {
	t.Helper()
	f := res.Harborgate.Failure
	if f == nil {
		t.Fatalf("no failure, want %s in %s", cause, phase)
	}
	if f.Phase != phase || f.Cause != cause || f.Blame != blame {
		t.Errorf("failure %s in %s, blame %q; want %s in %s, blame %q: %s", f.Cause, f.Phase, f.Blame, cause, phase, blame, f.Message)
	}
}

// recorder keeps events and may act on them.
type recorder struct {
	mu   sync.Mutex
	all  []trials.Event
	then func(trials.Event) // called outside the lock
}

func (r *recorder) Emit(e trials.Event) {
	r.mu.Lock()
	r.all = append(r.all, e)
	r.mu.Unlock()
	if r.then != nil {
		r.then(e)
	}
}

// words are the events in short: "phase-start verifier".
func (r *recorder) words() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, e := range r.all {
		out = append(out, word(e))
	}
	return out
}

func word(e trials.Event) string {
	var data struct{ Phase, Code string }
	_ = json.Unmarshal(e.Data, &data)
	switch e.Type {
	case trials.EventPhaseStart, trials.EventPhaseEnd:
		return string(e.Type) + " " + data.Phase
	case trials.EventNote:
		return string(e.Type) + " " + data.Code
	default:
		return string(e.Type)
	}
}
