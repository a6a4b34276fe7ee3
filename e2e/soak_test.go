package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"harborgate/providers/docker"
	"harborgate/trials"
	"harborgate/trials/results"
)

// soakTasks are mixed at random: the name of each says what its oracle does.
var soakTasks = map[string]string{
	"works":    "echo 1 > /tmp/done",
	"fails":    "exit 3",
	"slow":     "sleep 1; echo 1 > /tmp/done",
	"hangs":    "sleep 1000",
	"talks":    "head -c 3000000 /dev/zero | tr '\\0' x; echo 1 > /tmp/done",
	"forks":    "for i in $(seq 50); do (setsid sleep 1000 &); done; echo 1 > /tmp/done",
	"survives": "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo 1 > /tmp/done",
}

// TestSoak runs jobs of random tasks, ends some of them by signals at random
// moments, and looks after each that nothing is lost and nothing is left. A few
// rounds run always; HARBOR_SOAK=1 makes them many. The seed is printed, and
// HARBOR_SOAK_SEED repeats a run.
func TestSoak(t *testing.T) {
	t.Parallel()
	rounds := 3
	if os.Getenv("HARBOR_SOAK") != "" {
		rounds = 100
	}
	s := newSoak(t)
	s.writeTasks()
	for round := range rounds {
		s.round(round)
	}
}

type soak struct {
	t      *testing.T
	dir    string
	random *rand.Rand
}

func (s *soak) writeTasks() {
	for name, solution := range soakTasks {
		for file, body := range map[string]string{
			"task.toml":              "schema_version = \"1.4\"\n[agent]\ntimeout_sec = 3.0\n[verifier]\ntimeout_sec = 20.0\n",
			"instruction.md":         "Soak.\n",
			"environment/Dockerfile": "FROM debian:bookworm-slim\n",
			"solution/solve.sh":      "#!/bin/sh\n" + solution + "\n",
			"tests/test.sh":          "#!/bin/sh\nif [ -e /tmp/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
		} {
			path := filepath.Join(s.dir, "tasks", name, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(body), 0o755)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// endings are how a round may end, as often as they are listed.
var endings = []os.Signal{nil, nil, nil, syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL}

func (s *soak) round(n int) {
	job := fmt.Sprintf("soak-%03d", n)
	ending := endings[s.random.IntN(len(endings))]
	after := time.Duration(s.random.IntN(6000)) * time.Millisecond
	parallel := 1 + s.random.IntN(6)
	s.t.Logf("%s: -n %d, %v after %s", job, parallel, ending, after)
	cmd := s.harbor("run", "-p", "tasks", "-o", "jobs", "--job-name", job, "-q", "-n", strconv.Itoa(parallel), "-k", strconv.Itoa(1+s.random.IntN(2)))
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if ending != nil {
		select {
		case <-time.After(after):
			_ = cmd.Process.Signal(ending) // it may just have ended
		case err := <-ended:
			ended <- err
		}
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		_ = cmd.Process.Kill()
		s.t.Fatalf("%s did not end", job)
	}
	s.check(job, ending == syscall.SIGKILL)
}

// cleanUp removes what a killed process left, what a busy engine makes of its last
// wish too.
func (s *soak) cleanUp() {
	for range 20 {
		if out, err := s.harbor("cleanup").CombinedOutput(); err != nil {
			s.t.Fatalf("cleanup: %v\n%s", err, out)
		}
		if len(s.left()) == 0 {
			return
		}
	}
}

// check looks at what a round left.
func (s *soak) check(job string, killed bool) {
	if killed {
		s.cleanUp()
	}
	if left := s.left(); len(left) > 0 {
		s.t.Fatalf("%s left %v", job, left)
	}
	dir := filepath.Join(s.dir, "jobs", job)
	res, err := results.ReadJobResult(dir)
	if errors.Is(err, os.ErrNotExist) {
		return // ended before it began
	}
	if err != nil {
		s.t.Fatal(err)
	}
	st := res.Stats
	if sum := st.Completed + st.Running + st.Pending; sum != res.NTotalTrials {
		s.t.Fatalf("%s: %d of %d trials accounted for: %+v", job, sum, res.NTotalTrials, st)
	}
	s.checkTrials(dir, killed, st.Completed)
}

func (s *soak) checkTrials(dir string, killed bool, completed int) {
	dirs, err := results.TrialDirs(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	finished := 0
	for _, d := range dirs {
		r, err := results.ReadTrialResult(d)
		if errors.Is(err, os.ErrNotExist) && killed {
			continue
		}
		if err != nil {
			s.t.Fatal(err)
		}
		finished++
		name := filepath.Base(*r.Config.Task.Path)
		if main, ok := rewardOf(r.VerifierResult); ok && (main == 1) != (name != "fails" && name != "hangs") {
			b, _ := json.Marshal(r)
			s.t.Fatalf("%s got reward %v: %s", name, main, b)
		}
	}
	if !killed && finished != completed {
		s.t.Fatalf("%s: %d results on disk, %d in the job's", dir, finished, completed)
	}
}

func (s *soak) harbor(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "harbor"), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(s.dir, ".state"), "XDG_CACHE_HOME="+filepath.Join(s.dir, ".cache"))
	return cmd
}

func (s *soak) removeAll() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, left := list(ctx, filepath.Join(s.dir, ".state"))
	if p == nil {
		return
	}
	defer func(p *docker.Provider) { _ = p.Close() }(p)
	for _, r := range left {
		_ = p.Destroy(ctx, r.ID)
	}
}

func rewardOf(v *trials.VerifierResult) (float64, bool) {
	if v == nil {
		return 0, false
	}
	n, ok := v.Rewards.Main()
	return n.Value, ok
}
