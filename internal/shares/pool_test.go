package shares

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// workVariable makes the test program one that uses a pool as fast as it gets
// leases, until standard input ends.
const workVariable = "HARBOR_TEST_WORK_IN"

// workers are as many as a process has at once, when it gets all.
const (
	poolLimit  = 6
	workLength = 20 * time.Millisecond
)

// work writes "+" after each lease and "-" before it gives it back: what the log
// says is never more than what is held.
func work(state string) {
	o, err := Register(state)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := o.Pool("fake", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p.For("work", Need{Sandboxes: poolLimit})
	log, err := os.OpenFile(filepath.Join(state, "log"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	fmt.Println(o.ID)
	var wg sync.WaitGroup
	for ctx.Err() == nil {
		release, ok, err := p.Acquire(ctx, Need{})
		switch {
		case err != nil:
			continue
		case !ok:
			select {
			case <-p.Freed():
			case <-ctx.Done():
			}
			continue
		}
		_, _ = fmt.Fprintf(log, "+%d\n", os.Getpid())
		wg.Go(func() {
			<-time.After(workLength)
			_, _ = fmt.Fprintf(log, "-%d\n", os.Getpid())
			release()
		})
	}
	wg.Wait()
	_ = errors.Join(p.Close(), o.Close(), log.Close())
}

// worker starts such a process.
func worker(t *testing.T, state string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workVariable+"="+state)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// tally reads the log: how much was held at most, and by whom how often.
func tally(t *testing.T, state string) (most int, leases map[string]int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	leases = map[string]int{}
	held := 0
	for line := range strings.Lines(string(text)) {
		if line[0] == '+' {
			held++
			leases[line]++
		} else {
			held--
		}
		most = max(most, held)
	}
	return most, leases
}

// await waits until ok, with a hang guard.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	guard := time.After(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-guard:
			t.Fatalf("%s does not come to be", what)
		}
	}
}

// Three processes use all of a provider, together never more than it allows; what
// one had that is killed, the others get.
func TestProcessesShareAProvider(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	var cmds []*exec.Cmd
	for range 3 {
		cmds = append(cmds, worker(t, state))
	}
	await(t, "work of all three", func() bool {
		_, leases := tally(t, state)
		n := 0
		for _, l := range leases {
			if l >= 50 {
				n++
			}
		}
		return n == 3
	})
	most, _ := tally(t, state)
	if most != poolLimit {
		t.Errorf("%d were held at once of %d", most, poolLimit)
	}
	victim := cmds[0].Process.Pid
	if err := cmds[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmds[0].Wait()
	o := register(t, state)
	await(t, "the share of the dead one", func() bool {
		all, err := o.Standings()
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		full := all[0].Use.Sandboxes == poolLimit
		for _, owner := range all[0].Owners {
			full = full && owner.PID != victim
		}
		return full
	})
}

func open(t *testing.T, o *Owner, limits Need, sweep func(context.Context) error) *Pool {
	t.Helper()
	p, err := o.Pool("docker", sweep)
	if err != nil {
		t.Fatal(err)
	}
	p.For("test", limits)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestPoolGivesBackOnceAndTells(t *testing.T) {
	t.Parallel()
	p := open(t, register(t, t.TempDir()), Need{Sandboxes: 1}, nil)
	release, ok, err := p.Acquire(t.Context(), Need{})
	if _, second, _ := p.Acquire(t.Context(), Need{}); !ok || err != nil || second {
		t.Fatal(ok, err, second)
	}
	release()
	release()
	<-p.Freed()
	if _, ok, _ := p.Acquire(t.Context(), Need{}); !ok {
		t.Error("what was given back cannot be had")
	}
	if _, ok, _ := p.Acquire(t.Context(), Need{}); ok {
		t.Error("one release gave two leases")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok, err := p.Acquire(ctx, Need{}); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("%v %v", ok, err)
	}
}

// A process that dies while it writes leaves the account of before.
func TestHalfWrittenBookIsTheOneBefore(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	p := open(t, o, Need{}, nil)
	for range 3 {
		if _, ok, err := p.Acquire(t.Context(), Need{}); !ok {
			t.Fatal(err)
		}
	}
	path := filepath.Join(state, poolsDir, "docker")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(text, []byte(`"sandboxes":3`))
	if at < 0 {
		t.Fatalf("no copy has 3: %q", bytes.Trim(text, "\x00"))
	}
	text[at+len(`"sandboxes":`)] = 'x'
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := o.Standings()
	if err != nil || all[0].Use.Sandboxes != 2 {
		t.Errorf("%+v %v", all, err)
	}
	if _, ok, err := p.Acquire(t.Context(), Need{}); !ok {
		t.Error(err)
	}
	if all, err = o.Standings(); err != nil || all[0].Use.Sandboxes != 3 {
		t.Errorf("%+v %v", all, err)
	}
}

func TestAccountOfAnEarlierBootIsEmpty(t *testing.T) {
	t.Parallel()
	a := &account{Boot: "before", Owners: map[string]*part{"x": {}}, Pauses: map[string]Hold{"y": {Until: 1 << 62}}}
	a.of("now")
	if a.Boot != "now" || a.Owners != nil || a.Pauses != nil {
		t.Errorf("%+v", a)
	}
}

func TestPoolsOfAHostPauseTogether(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	one, two := open(t, register(t, state), Need{}, nil), open(t, register(t, state), Need{}, nil)
	for _, d := range []time.Duration{time.Hour, time.Minute} {
		if err := one.Pause("creates").CoolDown(d, "429"); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := two.Pause("creates").Cool(); err != nil || left < 59*time.Minute {
		t.Errorf("%s %v", left, err)
	}
	if left, err := two.Pause("deletes").Cool(); err != nil || left != 0 {
		t.Errorf("another class has a pause of %s too, %v", left, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := one.Pace("create", 0.001, 1).Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := two.Pace("create", 0.001, 1).Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second turn came at once: %v", err)
	}
}
