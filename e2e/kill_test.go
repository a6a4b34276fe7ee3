package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/trials"
	"harborgate/trials/results"
)

// killTrials is how many trials the killed job has, killParallel how many of them
// run at once.
const (
	killTrials   = 20
	killParallel = 4
)

// TestKill kills a job at random points of its life and starts it again, until it
// is done. Nothing of a dead process may be left after the next start, nothing
// graded may be lost, changed or done twice, and another job that runs all the
// time must not notice.
func TestKill(t *testing.T) {
	t.Parallel()
	points := 5
	if os.Getenv("HARBOR_SOAK") != "" {
		points = 30
	}
	k := &killing{soak: newSoak(t), finished: map[string][]byte{}}
	k.write("tasks/long/solution/solve.sh", "#!/bin/sh\necho working\nsleep 10000\n")
	k.write("tasks/quick/solution/solve.sh", "#!/bin/sh\nmktemp /marks/XXXXXXXXXX | tee /logs/artifacts/run\nsleep 0.$(($$ % 4))\n")
	k.write("tasks/quick/tests/test.sh", "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n")
	if err := os.Mkdir(filepath.Join(k.dir, "marks"), 0o777); err != nil {
		t.Fatal(err)
	}
	live := k.startLive()
	for point := range points {
		k.kill(point)
	}
	k.finish()
	k.checkLive(live)
}

type killing struct {
	*soak
	job      int // one that came to its end is followed by another
	kills    int // of the current job
	finished map[string][]byte
	orphans  []providers.ID // of the process that was killed last
}

func (k *killing) dirOf() string { return filepath.Join(k.dir, "jobs", k.name()) }
func (k *killing) name() string  { return fmt.Sprintf("killed-%d", k.job) }
func (k *killing) events() string {
	return filepath.Join(k.dirOf(), results.EventsFile)
}

func (k *killing) run() *exec.Cmd {
	return k.harbor("run", "-p", "tasks/quick", "-o", "jobs", "--job-name", k.name(), "-q", "-k", strconv.Itoa(killTrials), "-n", strconv.Itoa(killParallel),
		"--mounts", `[{"type":"bind","source":"marks","target":"/marks"}]`)
}

func (k *killing) startLive() *exec.Cmd {
	cmd := k.harbor("run", "-p", "tasks/long", "-o", "jobs", "--job-name", "live", "-q")
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = cmd.Process.Kill() })
	k.until("the live job works", func() bool {
		return occurrences(filepath.Join(k.dir, "jobs", "live", "*", "agent", "oracle.txt"), "working") == 1
	})
	return cmd
}

// checkLive holds that the other job still works and ends as it is told to.
func (k *killing) checkLive(cmd *exec.Cmd) {
	if n := len(k.left()); n != 1 {
		k.t.Errorf("%d sandboxes, want the live job's", n)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		k.t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		k.t.Errorf("the live job ended with %v", err)
	}
	res, err := results.ReadJobResult(filepath.Join(k.dir, "jobs", "live"))
	if err != nil || res.Stats.Cancelled != 1 || addsUp(res) != nil {
		k.t.Errorf("the live job: %+v %v %v", res.Stats, addsUp(res), err)
	}
	if left := k.left(); len(left) > 0 {
		k.t.Errorf("left: %v", left)
	}
}

// kill starts the job, or goes on with it, and kills it some events later.
func (k *killing) kill(point int) {
	before := occurrences(k.events(), "\n")
	after, pause := 1+k.random.IntN(80), time.Duration(k.random.IntN(40))*time.Millisecond
	k.t.Logf("point %d: %s, %s and %d events after %d", point, k.name(), pause, after, before)
	cmd := k.run()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	k.until("the job begins", func() bool { return occurrences(k.events(), "\n") > before || len(ended) > 0 })
	k.checkSwept()
	k.until("the job comes to the point", func() bool { return occurrences(k.events(), "\n") >= before+after || len(ended) > 0 })
	select {
	case <-time.After(pause):
	case err := <-ended:
		ended <- err
	}
	_ = cmd.Process.Kill() // it may just have ended
	if err := <-ended; err == nil {
		k.checkFinished()
		k.job, k.kills, k.finished = k.job+1, 0, map[string][]byte{}
		return
	} else if !strings.Contains(err.Error(), "killed") {
		k.t.Fatalf("%v\n%s", err, &said)
	}
	k.kills++
	k.remember()
}

// remember keeps what the dead process had finished, and what it left running.
func (k *killing) remember() {
	k.sameAsBefore()
	found, err := filepath.Glob(filepath.Join(k.dirOf(), "*", results.ResultFile))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, f := range found {
		b, err := os.ReadFile(f)
		if err != nil {
			k.t.Fatal(err)
		}
		k.finished[f] = b
	}
	k.orphans = nil
	for _, r := range k.left() {
		if r.Labels[providers.LabelJob] != "live" {
			k.orphans = append(k.orphans, r.ID)
		}
	}
	if res, err := results.ReadJobResult(k.dirOf()); err == nil {
		if err := addsUp(res); err != nil {
			k.t.Error(err)
		}
	}
}

// sameAsBefore holds that a finished trial is never touched again.
func (k *killing) sameAsBefore() {
	for f, was := range k.finished {
		if now, err := os.ReadFile(f); err != nil || !bytes.Equal(now, was) {
			k.t.Errorf("%s changed: %v\nwas %s\nis %s", f, err, was, now)
		}
	}
}

// checkSwept holds that the start removed what the dead process left.
func (k *killing) checkSwept() {
	for _, r := range k.left() {
		if slices.Contains(k.orphans, r.ID) {
			k.t.Errorf("%s of the dead process is still there: %v", r.ID, r.Labels)
		}
	}
	k.orphans = nil
}

func (k *killing) finish() {
	if out, err := k.run().CombinedOutput(); err != nil {
		k.t.Fatalf("%v\n%s", err, out)
	}
	k.checkFinished()
}

// checkFinished looks at a job that came to its end.
func (k *killing) checkFinished() {
	k.sameAsBefore()
	res, err := results.ReadJobResult(k.dirOf())
	if err != nil {
		k.t.Fatal(err)
	}
	if res.FinishedAt == nil || res.Harborgate.Graded != killTrials || addsUp(res) != nil {
		k.t.Errorf("%s: %+v, %d graded, %v", k.name(), res.Stats, res.Harborgate.Graded, addsUp(res))
	}
	found, err := results.TrialDirs(k.dirOf())
	if err != nil || len(found) != killTrials {
		k.t.Errorf("%d trials %v", len(found), err)
	}
	runs := map[string]bool{}
	for _, d := range found {
		r, err := results.ReadTrialResult(d)
		if err != nil || !r.RewardValid || r.ExceptionInfo != nil {
			k.t.Errorf("%s: %v %+v", d, err, r)
			continue
		}
		b, err := os.ReadFile(filepath.Join(d, "artifacts", "logs", "artifacts", "run"))
		mark := filepath.Base(strings.TrimSpace(string(b)))
		if _, merr := os.Stat(filepath.Join(k.dir, "marks", mark)); err != nil || merr != nil || runs[mark] {
			k.t.Errorf("%s: run %q: %v %v, seen before: %v", d, mark, err, merr, runs[mark])
		}
		runs[mark] = true
	}
	k.checkRuns()
	k.checkEvents()
	k.checkStray(k.dirOf())
}

// checkRuns counts what agents did: nothing was done again but what was cut off.
func (k *killing) checkRuns() {
	marks, err := os.ReadDir(filepath.Join(k.dir, "marks"))
	if err != nil {
		k.t.Fatal(err)
	}
	most := killTrials + k.kills*killParallel
	if n := len(marks); n < killTrials || n > most {
		k.t.Errorf("agents ran %d times, want %d to %d after %d kills", n, killTrials, most, k.kills)
	}
	for _, m := range marks {
		if err := os.Remove(filepath.Join(k.dir, "marks", m.Name())); err != nil {
			k.t.Error(err)
		}
	}
}

// checkEvents holds that the events tell the whole story: numbered without a gap,
// each trial with one end that counts.
func (k *killing) checkEvents() {
	b, err := os.ReadFile(k.events())
	if err != nil {
		k.t.Fatal(err)
	}
	seq := int64(0)
	for line := range bytes.Lines(b) {
		var e trials.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Seq != seq+1 {
			k.t.Fatalf("after event %d: %v in %s", seq, err, line)
		}
		seq = e.Seq
	}
}

// checkStray looks for what writing left half-done.
func (k *killing) checkStray(dir string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == results.TriesDir {
			return fs.SkipDir
		}
		if err == nil && strings.HasPrefix(d.Name(), ".") && d.Name() != ".lock" {
			k.t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		k.t.Error(err)
	}
}

// until looks again until it is so.
func (s *soak) until(what string, so func() bool) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(2 * time.Minute)
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("it never happened that %s", what)
		}
	}
}

// left is all that this test's host has at the engine.
func (s *soak) left() []providers.Resource {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, found := list(ctx, filepath.Join(s.dir, ".state"))
	if p != nil {
		_ = p.Close()
	}
	return found
}

// newSoak is a place for jobs with a seed, which is printed.
func newSoak(t *testing.T) *soak {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("HARBOR_SOAK_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("HARBOR_SOAK_SEED=%d", seed)
	s := &soak{t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 0))}
	t.Cleanup(s.removeAll)
	return s
}

// write writes a file of a task, completed with what a task needs.
func (s *soak) write(name, body string) {
	s.writeFile(name, body)
	parts := strings.Split(name, "/")
	task := filepath.Join(s.dir, parts[0], parts[1])
	for _, d := range slices.Concat(defaults, []defaultFile{{"environment/Dockerfile", "FROM debian:bookworm-slim\n"}}) {
		if err := writeMissing(filepath.Join(task, d.name), d.text); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *soak) writeFile(name, body string) {
	path := filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(body), 0o755)); err != nil {
		s.t.Fatal(err)
	}
}
