package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"harborgate/trials/results"
)

// TestSoakFaults runs one job through random faults and kills until it is done.
// Then every trial has the verdict that its task deserves, and nothing is left. Some
// trials run always, HARBOR_SOAK=1 makes them many. The seed is printed.
func TestSoakFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []faultSoak{
		{provider: "fake", attempts: 12, many: 200, parallel: 20, faults: fakeFaults, memory: 160},
		{provider: "docker", attempts: 3, many: 60, parallel: 4, faults: engineFaults, memory: 160},
	} {
		t.Run(c.provider, func(t *testing.T) {
			t.Parallel()
			c.soak = newSoak(t)
			c.kills = 2
			if os.Getenv("HARBOR_SOAK") != "" {
				c.attempts, c.kills = c.many, 10
			}
			c.run()
		})
	}
}

// faultTasks are five tasks, whose names say what their oracle is worth.
var faultTasks = map[string]string{
	"works-1": "echo 1 > /tmp/done",
	"works-2": "sleep 0.2; echo 1 > /tmp/done",
	"works-3": "seq 20000; echo 1 > /tmp/done",
	"fails-1": "exit 3",
	"fails-2": "sleep 0.1",
}

type faultSoak struct {
	*soak
	provider       string
	attempts, many int // of each task
	parallel       int
	kills          int
	// faults begins to do harm, and returns how to end that.
	faults func(*faultSoak) (heal func())
	memory int // MiB that no process may exceed
	env    []string
}

func (f *faultSoak) total() int { return f.attempts * len(faultTasks) }

func (f *faultSoak) job() string { return filepath.Join(f.dir, "jobs", "soak") }

// settings are of config.yaml; the seed of faults differs from process to process.
func (f *faultSoak) settings(percent float64) {
	f.writeFile("config.yaml", fmt.Sprintf(`version: 1
providers:
  docker: {type: docker, limits: {outage_sec: 60}}
  fake: {type: fake, limits: {outage_sec: 60}, options: {create_sec: 0.05, exec_sec: 0.005, fault_percent: %g, fault_seed: %d}}
`, percent, f.random.IntN(1<<30)))
}

func (f *faultSoak) run() {
	for name, solution := range faultTasks {
		f.write("tasks/"+name+"/solution/solve.sh", "#!/bin/sh\n"+solution+"\n")
		f.write("tasks/"+name+"/tests/test.sh", "#!/bin/sh\nif [ -e /tmp/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n")
	}
	f.writeFile("retry.yaml", "retry: {max_retries: 3, min_wait_sec: 0.1, max_wait_sec: 1.0}\n")
	if err := os.Mkdir(filepath.Join(f.dir, "tmp"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	w := watchJob(f.job())
	f.settings(1)
	heal := f.faults(f)
	for range f.kills {
		f.process(1+f.random.IntN(5*f.total()/f.kills), "-c", "retry.yaml")
	}
	f.process(0, "-c", "retry.yaml")
	heal()
	f.settings(0)
	// What the faults cost, although it was tried again, is run once more.
	f.process(0, "--retry-failed", "infrastructure", "--retry-failed", "harness")
	if seen, err := w.end(); err != nil || seen < 2 {
		f.t.Errorf("%d states seen: %v", seen, err)
	}
	f.check()
}

// process runs the job, or goes on with it, and kills it after some events; 0 is
// never.
func (f *faultSoak) process(killAfter int, more ...string) {
	events := filepath.Join(f.job(), results.EventsFile)
	before := occurrences(events, "\n")
	args := slices.Concat([]string{"run", "-p", "tasks", "-o", "jobs", "--job-name", "soak", "-q", "-e", f.provider, "-k", strconv.Itoa(f.attempts), "-n", strconv.Itoa(f.parallel)}, more)
	cmd := f.harbor(args...)
	cmd.Env = append(cmd.Env, "HARBOR_CONFIG="+filepath.Join(f.dir, "config.yaml"), "TMPDIR="+filepath.Join(f.dir, "tmp"))
	cmd.Env = append(cmd.Env, f.env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	body := f.weigh(cmd.Process.Pid, ended, func() bool { return killAfter > 0 && occurrences(events, "\n") >= before+killAfter })
	err := <-ended
	f.t.Logf("%d events, %v; %s", occurrences(events, "\n")-before, err, body)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != 3 && exit.ExitCode() != -1 {
		f.t.Fatalf("%v\n%s", err, &said)
	}
	body.check(f.t, f.memory)
}

// body is what a process weighed while it ran.
type body struct{ memory, files []int } // KiB, number

func (b body) String() string {
	if len(b.memory) == 0 {
		return "never seen"
	}
	return fmt.Sprintf("at most %d MiB and %d files", slices.Max(b.memory)>>10, slices.Max(b.files))
}

// flat is by how much the last quarter of a long run may be above the most of its
// first half. The middle of an earlier quarter says less: while a provider is away
// nothing runs.
const flat = 1.25

func (b body) check(t *testing.T, most int) {
	t.Helper()
	if len(b.memory) == 0 {
		return
	}
	if peak := slices.Max(b.memory) >> 10; peak > most {
		t.Errorf("it took %d MiB, want at most %d", peak, most)
	}
	const long = 200
	if n := len(b.memory); n >= long {
		for what, xs := range map[string][]int{"memory": b.memory, "files": b.files} {
			most, last := slices.Max(xs[:n/2]), middle(xs[3*n/4:])
			if float64(last) > flat*float64(most)+16 { // of few, some more are many
				t.Errorf("%s grew from at most %d to %d", what, most, last)
			}
		}
	}
}

func middle(xs []int) int {
	s := slices.Sorted(slices.Values(xs))
	return s[len(s)/2]
}

var residentLine = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// weigh looks at a process until it ends, and kills it when it is time.
func (f *faultSoak) weigh(pid int, ended chan error, enough func() bool) (b body) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			ended <- err
			return b
		case <-tick.C:
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		m := residentLine.FindSubmatch(status)
		files, ferr := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err == nil && ferr == nil && m != nil {
			kib, _ := strconv.Atoi(string(m[1])) // digits
			b.memory, b.files = append(b.memory, kib), append(b.files, len(files))
		}
		if enough() {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may just have ended
			}
			enough = func() bool { return false }
		}
	}
}

func (f *faultSoak) check() {
	if f.provider == "docker" {
		if out, err := f.harbor("cleanup").CombinedOutput(); err != nil {
			f.t.Errorf("%v\n%s", err, out)
		}
	}
	if left := f.left(); len(left) > 0 {
		f.t.Errorf("left: %v", left)
	}
	if err := infrastructureIsNotScored(f.job()); err != nil {
		f.t.Error(err)
	}
	res, err := results.ReadJobResult(f.job())
	if err != nil {
		f.t.Fatal(err)
	}
	if res.FinishedAt == nil || res.Harborgate.Graded != f.total() {
		f.t.Errorf("%d of %d graded: %+v %+v", res.Harborgate.Graded, f.total(), res.Stats, res.Harborgate)
	}
	dirs, err := results.TrialDirs(f.job())
	if err != nil || len(dirs) != f.total() {
		f.t.Errorf("%d trials: %v", len(dirs), err)
	}
	for _, d := range dirs {
		r, err := results.ReadTrialResult(d)
		if err != nil {
			f.t.Error(err)
			continue
		}
		reward, ok := rewardOf(r.VerifierResult)
		if works := strings.HasPrefix(filepath.Base(d), "works"); !ok || (reward == 1) != works {
			f.t.Errorf("%s has reward %g, %v: %+v", d, reward, ok, r.ExceptionInfo)
		}
	}
	f.checkPlaces()
}

// checkPlaces looks where temporary things live.
func (f *faultSoak) checkPlaces() {
	k := &killing{soak: f.soak}
	k.checkStray(f.job())
	for _, dir := range []string{"tmp", ".state/harborgate/owners", ".state/harborgate/tmp"} {
		found, err := os.ReadDir(filepath.Join(f.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.t.Error(err)
		}
		// The fake has no sweep: its sandboxes die with the process, its owners'
		// files go with the next sweep of anything.
		if len(found) > 0 && (f.provider == "docker" || dir == "tmp") {
			f.t.Errorf("%s holds %v", dir, found)
		}
	}
}

// fakeFaults are the fake's own.
func fakeFaults(*faultSoak) func() { return func() {} }

// engineFaults puts a proxy before the engine and makes it misbehave, a moment each.
func engineFaults(f *faultSoak) func() {
	dir, err := os.MkdirTemp("", "hg-")
	if err != nil {
		f.t.Fatal(err)
	}
	p := newProxy(filepath.Join(dir, "s"))
	if err := p.up(); err != nil {
		f.t.Fatal(err)
	}
	f.env = []string{"DOCKER_HOST=unix://" + p.socket}
	seed := f.random.Uint64()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		p.misbehave(seed, stop)
	}()
	f.t.Cleanup(func() {
		p.down()
		_ = os.RemoveAll(dir)
	})
	return func() {
		close(stop)
		<-stopped
		p.heal()
	}
}
