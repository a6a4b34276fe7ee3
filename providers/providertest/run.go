package providertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/providers"
)

const (
	defaultParallel = 4
	slowFactor      = 6
	caseTime        = 2 * time.Minute
)

// Run runs every case that applies as a parallel subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	p, err := h.Open()
	if err != nil {
		t.Fatalf("open provider: %v", err)
	}
	can := p.Info().Can
	if err := p.Close(); err != nil {
		t.Errorf("close provider: %v", err)
	}
	if err := CheckExempt(h); err != nil {
		t.Error(err)
	}
	if h.Parallel == 0 {
		h.Parallel = defaultParallel
	}
	slots := make(chan struct{}, h.Parallel)
	for _, c := range Cases() {
		if !Applies(c, h, can) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			RunCase(t.Context(), c, h, t)
		})
	}
}

// CheckExempt returns an error when the harness exempts other cases than those
// that need real processes.
func CheckExempt(h Harness) error {
	if len(h.ExemptRealProcesses) == 0 {
		return nil
	}
	var want []string
	for _, c := range Cases() {
		if slices.Contains(c.Needs, NeedRealProcesses) {
			want = append(want, c.Name)
		}
	}
	got := slices.Sorted(slices.Values(h.ExemptRealProcesses))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("ExemptRealProcesses is %q, want all cases that need real processes: %q", got, want)
	}
	return nil
}

// RunCase runs one case and cleans up after it. It returns when the case has
// ended, however it ended.
func RunCase(ctx context.Context, c Case, h Harness, r Reporter) {
	e := &Env{Reporter: r, Harness: h, name: c.Name, nonce: time.Now().Format(time.RFC3339Nano)}
	p, err := h.Open()
	if err != nil {
		e.Fatalf("open provider: %v", err)
	}
	e.Provider = p
	limit := caseTime
	if h.Slow {
		limit *= slowFactor
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer e.cleanUp(ctx)
	c.Run(ctx, e)
}

// Env is what a case works with. Its methods fail the case when they fail.
type Env struct {
	Reporter
	Harness  Harness
	Provider providers.Provider

	name  string
	nonce string // tells this run from others

	mu    sync.Mutex // guards made
	made  []providers.Sandbox
	count int
}

// Fatalf notes a failure and ends the case.
func (e *Env) Fatalf(format string, args ...any) {
	e.Errorf(format, args...)
	e.FailNow()
}

// Prompt is how long something may take that should take no time.
func (e *Env) Prompt() time.Duration {
	if e.Harness.Slow {
		return slowFactor * 10 * time.Second
	}
	return 10 * time.Second
}

// trial is the label that all resources of the case carry.
func (e *Env) trial() string { return providers.Name("providertest", e.name, e.nonce) }

// Spec returns a spec with a fresh name and the labels of the case.
func (e *Env) Spec() providers.Spec {
	e.mu.Lock()
	e.count++
	n := e.count
	e.mu.Unlock()
	s := e.Harness.Spec()
	s.Name = providers.Name("providertest", e.name, e.nonce, fmt.Sprint(n))
	s.Labels.Trial, s.Labels.Job = e.trial(), "providertest"
	if s.Labels.Owner == "" {
		s.Labels.Owner = "providertest"
	}
	if s.Labels.Host == "" {
		s.Labels.Host = "providertest"
	}
	if s.Labels.Expires.IsZero() {
		s.Labels.Expires = time.Now().Add(time.Hour).Truncate(time.Second)
	}
	return s
}

// Create makes a sandbox that is destroyed after the case.
func (e *Env) Create(ctx context.Context, change ...func(*providers.Spec)) providers.Sandbox {
	s := e.Spec()
	for _, f := range change {
		f(&s)
	}
	sb, err := e.Provider.Create(ctx, s)
	if err != nil {
		e.Fatalf("create: %v", err)
	}
	e.keep(sb)
	return sb
}

func (e *Env) keep(sb providers.Sandbox) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made = append(e.made, sb)
}

// Mine lists what the case has made and not removed.
func (e *Env) Mine(ctx context.Context) []providers.Resource {
	list, err := e.Provider.List(ctx, providers.Selector{Labels: map[string]string{providers.LabelTrial: e.trial()}})
	if err != nil {
		e.Fatalf("list: %v", err)
	}
	return list
}

// cleanUp destroys what the case made and checks that nothing is left.
func (e *Env) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*e.Prompt())
	defer cancel()
	for _, sb := range e.made {
		if err := sb.Destroy(ctx); err != nil {
			e.Errorf("destroy %s: %v", sb.ID(), err)
		}
	}
	sel := providers.Selector{Labels: map[string]string{providers.LabelTrial: e.trial()}}
	list, err := e.Provider.List(ctx, sel)
	if err != nil {
		e.Errorf("list after the case: %v", err)
	}
	for _, r := range list {
		e.Errorf("the case left %s %s (%s, %s)", r.Kind, r.ID, r.Name, r.State)
		if err := e.Provider.Destroy(ctx, r.ID); err != nil {
			e.Errorf("destroy %s: %v", r.ID, err)
		}
	}
	if err := e.Provider.Close(); err != nil {
		e.Errorf("close provider: %v", err)
	}
}

// Output is what a command left behind.
type Output struct {
	Status         providers.ExitStatus
	Stdout, Stderr string
	Err            error
}

func (o Output) String() string {
	return fmt.Sprintf("%s, stdout %.500q, stderr %.500q, %d bytes dropped, error %v",
		o.Status, o.Stdout, o.Stderr, o.Status.DroppedBytes, o.Err)
}

// Exec runs a command and collects its output.
func (e *Env) Exec(ctx context.Context, sb providers.Sandbox, cmd providers.Command) Output {
	var stdout, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	status, err := sb.Exec(ctx, cmd)
	return Output{status, stdout.String(), stderr.String(), err}
}

// Sh runs a script with /bin/sh.
func (e *Env) Sh(ctx context.Context, sb providers.Sandbox, script string) Output {
	return e.Exec(ctx, sb, providers.Command{Args: []string{"/bin/sh", "-c", script}})
}

// Want runs a script that must exit with 0 and print want.
func (e *Env) Want(ctx context.Context, sb providers.Sandbox, script, want string) {
	if out := e.Sh(ctx, sb, script); out.Err != nil || !out.Status.OK() || out.Stdout != want {
		e.Errorf("%q: want output %q and exit code 0, got %v", script, want, out)
	}
}

// Must runs a script that must exit with 0 and returns what it printed.
func (e *Env) Must(ctx context.Context, sb providers.Sandbox, script string) string {
	out := e.Sh(ctx, sb, script)
	if out.Err != nil || !out.Status.OK() {
		e.Fatalf("%q: %v", script, out)
	}
	return out.Stdout
}

// WantKind checks an error.
func (e *Env) WantKind(what string, err error, kinds ...providers.Kind) {
	if err == nil {
		e.Errorf("%s: no error, want %v", what, kinds)
		return
	}
	if !slices.Contains(kinds, providers.KindOf(err)) {
		e.Errorf("%s: error %v of kind %v, want %v", what, err, providers.KindOf(err), kinds)
	}
}

// Within fails the case when f takes longer than Prompt.
func (e *Env) Within(what string, f func()) {
	start := time.Now()
	f()
	if took := time.Since(start); took > e.Prompt() {
		e.Errorf("%s took %s, want at most %s", what, took.Round(time.Millisecond), e.Prompt())
	}
}

// inSandbox is a case that needs one sandbox of the usual kind.
func inSandbox(f func(ctx context.Context, e *Env, sb providers.Sandbox)) func(context.Context, *Env) {
	return func(ctx context.Context, e *Env) { f(ctx, e, e.Create(ctx)) }
}

// transcript collects output while a command runs, and can be waited on.
type transcript struct {
	mu      sync.Mutex // guards what follows
	text    strings.Builder
	changed chan struct{}
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changed)
	t.changed = make(chan struct{})
	return t.text.Write(b)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// await waits until the output contains s.
func (t *transcript) await(ctx context.Context, s string) error {
	for {
		t.mu.Lock()
		found, changed := strings.Contains(t.text.String(), s), t.changed
		t.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the output never had %q: %w", s, ctx.Err())
		}
	}
}

// running is a command in the background of a case.
type running struct {
	e    *Env
	out  *transcript
	done chan Output
	stop context.CancelFunc
}

// start runs a script in the background and waits until it has printed "ready".
func (e *Env) start(ctx context.Context, sb providers.Sandbox, cmd providers.Command, script string) *running {
	run, stop := context.WithCancel(ctx)
	r := &running{e: e, out: newTranscript(), done: make(chan Output, 1), stop: stop}
	cmd.Args = []string{"/bin/sh", "-c", script}
	cmd.Stdout, cmd.Stderr = r.out, r.out
	go func() {
		status, err := sb.Exec(run, cmd)
		r.done <- Output{Status: status, Stdout: r.out.String(), Err: err}
	}()
	wait, cancel := context.WithTimeout(ctx, e.Prompt())
	defer cancel()
	if err := r.out.await(wait, "ready"); err != nil {
		stop()
		e.Fatalf("%q did not get ready: %v, %v", script, err, <-r.done)
	}
	return r
}

// cancel cancels the command and returns what Exec returned.
func (r *running) cancel() Output {
	r.stop()
	return r.wait("exec after cancel")
}

// wait waits for Exec to return.
func (r *running) wait(what string) Output {
	select {
	case out := <-r.done:
		r.stop()
		return out
	case <-time.After(r.e.Prompt()):
		r.stop()
		r.e.Fatalf("%s did not return within %s", what, r.e.Prompt())
		return Output{}
	}
}
