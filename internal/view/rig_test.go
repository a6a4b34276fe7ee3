package view

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"harborgate/trials"
	"harborgate/trials/results"
)

const updateGolden = "HARBOR_UPDATE_GOLDEN"

func TestMain(m *testing.M) {
	time.Local = time.UTC // screens show local times
	goleak.VerifyTestMain(m)
}

// begin is when everything starts, now is a minute later.
func begin() time.Time { return time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC) }

// ui is the browser with a user, and without a terminal.
type ui struct {
	t       *testing.T
	b       *browser
	now     time.Time
	running bool
}

// start opens a directory on a screen of 80 by 20.
func start(t *testing.T, path string) *ui {
	t.Helper()
	u := &ui{t: t, now: begin().Add(time.Minute)}
	first, err := open(host{now: func() time.Time { return u.now }, alive: func(string) bool { return u.running }, shown: filepath.Base}, path)
	if err != nil {
		t.Fatal(err)
	}
	u.b = newBrowser(first)
	t.Cleanup(func() { u.b.quit() })
	u.resize(80, 20)
	u.run(first.start())
	return u
}

func (u *ui) resize(columns, rows int) {
	u.send(tea.WindowSizeMsg{Width: columns, Height: rows})
}

func (u *ui) send(msg tea.Msg) {
	_, cmd := u.b.Update(msg)
	u.run(cmd)
}

// tick is what half a second brings, without the half second.
func (u *ui) tick() {
	u.now = u.now.Add(listPause)
	u.run(u.b.tell(tick{u.now}))
}

// run executes a command and all that follow from it.
func (u *ui) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			u.run(c)
		}
	case tea.QuitMsg:
	default:
		u.send(msg)
	}
}

// named are keys that have a name.
func named() map[string]tea.KeyPressMsg {
	return map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
		"left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "end": {Code: tea.KeyEnd}, "home": {Code: tea.KeyHome},
		"pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp}, "tab": {Code: tea.KeyTab}, "backspace": {Code: tea.KeyBackspace},
		"space": {Code: tea.KeySpace, Text: " "}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
}

// press types keys that are separated by spaces: names, or characters.
func (u *ui) press(keys string) {
	u.t.Helper()
	for _, k := range strings.Fields(keys) {
		if msg, ok := named()[k]; ok {
			u.send(msg)
			continue
		}
		for _, r := range k {
			u.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

// screen is what is seen, without colours.
func (u *ui) screen() string {
	lines := strings.Split(unpainted(u.b.screen()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func (u *ui) shows(parts ...string) {
	u.t.Helper()
	s := u.screen()
	for _, p := range parts {
		if !strings.Contains(s, p) {
			u.t.Fatalf("the screen lacks %q:\n%s", p, s)
		}
	}
}

func (u *ui) lacks(part string) {
	u.t.Helper()
	if s := u.screen(); strings.Contains(s, part) {
		u.t.Fatalf("the screen has %q:\n%s", part, s)
	}
}

// golden compares the screen with a file.
func (u *ui) golden(name string) {
	u.t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if os.Getenv(updateGolden) != "" {
		if err := os.WriteFile(file, []byte(u.screen()), 0o644); err != nil {
			u.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		u.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), u.screen()); diff != "" {
		u.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// put writes a file, with its directories.
func put(t *testing.T, path string, content any) {
	t.Helper()
	b, ok := content.([]byte)
	if s, text := content.(string); text {
		b, ok = []byte(s), true
	}
	if !ok {
		var err error
		if b, err = json.Marshal(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func at(seconds float64) *trials.Time {
	return trials.At(begin().Add(time.Duration(seconds * float64(time.Second))))
}

// trialOf is a result that took so many seconds, graded when it has a reward.
func trialOf(name string, seconds float64, rewards ...float64) *trials.Result {
	r := &trials.Result{
		SchemaVersion: 1, TrialName: name, TaskName: strings.Split(name, "__")[0], StartedAt: at(0), FinishedAt: at(seconds),
		AgentInfo:        trials.AgentInfo{Name: "oracle", Version: "1.0"},
		EnvironmentSetup: &trials.Timing{StartedAt: at(0), FinishedAt: at(seconds / 4)},
		AgentExecution:   &trials.Timing{StartedAt: at(seconds / 4), FinishedAt: at(seconds)},
		Harborgate:       &trials.Extra{Attempt: 1, Try: 1},
	}
	for _, x := range rewards {
		r.RewardValid = true
		r.VerifierResult = &trials.VerifierResult{Rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: x}}}}
	}
	return r
}

func failed(r *trials.Result, exception string, blame trials.Blame, message string) *trials.Result {
	r.ExceptionInfo = &trials.ExceptionInfo{Type: exception, Message: message}
	r.Harborgate.Failure = &trials.Failure{Phase: trials.PhaseAgentExecution, Blame: blame, Exception: exception, Message: message}
	return r
}

func putTrial(t *testing.T, job string, r *trials.Result) {
	t.Helper()
	dir := filepath.Join(job, r.TrialName)
	put(t, filepath.Join(dir, results.TrialLogFile), "begun\nended\n")
	put(t, filepath.Join(dir, results.ConfigFile), `{"trial_name": "`+r.TrialName+`"}`)
	put(t, filepath.Join(dir, results.ResultFile), r)
}

func putJob(t *testing.T, dir string, planned int, finished bool) {
	t.Helper()
	r := trials.JobResult{SchemaVersion: 1, ID: "id", NTotalTrials: planned, StartedAt: trials.LocalAt(begin()), UpdatedAt: trials.LocalAt(begin().Add(30 * time.Second))}
	r.Harborgate = &trials.JobExtra{Graded: 1}
	if finished {
		r.FinishedAt = trials.LocalAt(begin().Add(42 * time.Second))
	}
	put(t, filepath.Join(dir, results.ResultFile), r)
	put(t, filepath.Join(dir, results.ConfigFile), `{"job_name": "demo"}`)
	lock := strings.TrimSuffix(strings.Repeat(`{"agent": {"name": "oracle"}},`, planned), ",")
	put(t, filepath.Join(dir, results.LockFile), `{"schema_version": 3, "trials": [`+lock+`]}`)
}

// demo is a job with one trial of each kind.
func demo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "jobs", "demo")
	putJob(t, dir, 8, true)
	putTrial(t, dir, trialOf("alpha__1", 12, 1))
	putTrial(t, dir, trialOf("beta__2", 71.5, 0))
	putTrial(t, dir, failed(trialOf("gamma__3", 4), "SandboxLostError", trials.BlameInfrastructure, "the engine went away"))
	putTrial(t, dir, failed(trialOf("delta__4", 30, 1), "AgentTimeoutError", trials.BlameAgent, "agent timed out after 30 s"))
	suspect := trialOf("epsilon__5", 2, 0)
	suspect.Harborgate.Suspect = []trials.Suspicion{{Code: "command_not_found", Message: "pytest: command not found"}}
	putTrial(t, dir, suspect)
	putTrial(t, dir, failed(trialOf("zeta__6", 3), trials.ExcCancelled, trials.BlameNone, ""))
	put(t, filepath.Join(dir, "eta__7", results.TrialLogFile), "begun\n")
	put(t, filepath.Join(dir, "eta__7", results.ConfigFile), "{}")
	put(t, filepath.Join(dir, "theta__8", results.ResultFile), "{not json")
	return dir
}

// event is a line of events.jsonl.
func event(t *testing.T, seq int, e trials.Event) string {
	t.Helper()
	e.V, e.Seq, e.Time = 1, int64(seq), begin().Add(time.Duration(seq)*time.Second)
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintln(string(b))
}
