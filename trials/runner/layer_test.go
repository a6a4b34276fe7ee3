package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"harborgate/internal/redact"
	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/snapshots"
	"harborgate/trials"
)

const canary = "canary-5b1de3a2c9407f68"

// looked is a provider whose sandboxes answer who looks for secrets in them: their
// shell cannot.
type looked struct {
	providers.Provider
	has   string // content of the only new file
	blind bool   // there is no find
}

func (l *looked) Unwrap() providers.Provider { return l.Provider }

func (l *looked) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	if len(s.Env) > 0 || len(s.Mounts) > 0 || !s.Idle {
		return nil, providers.Errorf(providers.KindInternal, "create", "a build's sandbox is not bare: %+v", s)
	}
	sb, err := l.Provider.Create(ctx, s)
	return &lookedSandbox{sb, l.has, l.blind}, err
}

type lookedSandbox struct {
	providers.Sandbox
	has   string
	blind bool
}

func (s *lookedSandbox) Exec(ctx context.Context, c providers.Command) (providers.ExitStatus, error) {
	script := strings.Join(c.Args, " ")
	if strings.Contains(script, canary) || strings.Contains(fmt.Sprint(c.Env, c.SecretEnv), canary) {
		return providers.ExitStatus{}, errors.New("the secret went into the sandbox")
	}
	switch {
	case s.blind && strings.Contains(script, "find "):
		_, _ = io.WriteString(c.Stderr, "find: not found")
		return providers.ExitStatus{Code: 127}, nil
	case strings.Contains(script, named):
		fmt.Fprintf(c.Stdout, "/opt/a\n0\n/opt/b\n%d\n%s", len(s.has), s.has)
	case strings.Contains(script, contents):
		_, _ = io.WriteString(c.Stdout, s.has)
	default:
		return s.Sandbox.Exec(ctx, c)
	}
	return providers.ExitStatus{}, nil
}

// put is a layer that is one file.
type put struct {
	fail  error
	times atomic.Int32
}

func (p *put) Install(ctx context.Context, sb providers.Sandbox, log io.Writer, _ string) error {
	p.times.Add(1)
	fmt.Fprintln(log, "installing")
	_, err := sb.Exec(ctx, providers.Command{Args: []string{"sh", "-c", "mkdir -p /opt && echo ready > /opt/agent"}})
	return errors.Join(p.fail, err)
}

// bench builds layers on a fake provider.
type bench struct {
	t     *testing.T
	world *fake.World
	p     *looked
	dir   string
	put   *put
}

func newBench(t *testing.T) *bench {
	w := fake.NewWorld()
	return &bench{t: t, world: w, p: &looked{Provider: fake.New(fake.Options{World: w})}, dir: filepath.Join(t.TempDir(), "store"), put: &put{}}
}

// images are those of a new process.
func (b *bench) images() *Images {
	b.t.Helper()
	store, err := snapshots.Open(b.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(store.Close)
	return NewImages(ImagesOptions{
		Provider: b.p, Store: store, Owner: "owner", Host: "host", Prove: true,
		Secrets: func(context.Context) map[string]string { return map[string]string{canary: "MY_TOKEN"} },
	})
}

// get gets the layer over a task's environment in a process of its own.
func (b *bench) get(files map[string]string, try int) (*snapshots.Hold, snapshots.Request, error) {
	b.t.Helper()
	im, task := b.images(), writeTask(b.t, files)
	env, err := im.Environment(task, trials.NewTrialConfig(trials.TaskConfig{}), try)
	if err != nil {
		b.t.Fatal(err)
	}
	req := im.layered(env, wantedLayer{layer: b.put, digest: "one", title: "agent put", moves: reference(task, trials.TrialConfig{}) != ""})
	hold, err := im.Get(b.t.Context(), req)
	if n := b.world.Left(); n != 0 {
		b.t.Errorf("%d sandboxes of builds are left", n)
	}
	return hold, req, err
}

func TestAgentLayerIsMadeOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		var ref string
		for n := range 3 {
			hold, _, err := b.get(nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			if !hold.Snapshot || hold.Cached != (n > 0) || b.put.times.Load() != 1 || n > 0 && hold.Image.ID != ref {
				t.Errorf("process %d: %+v after %d installations", n, hold, b.put.times.Load())
			}
			ref = hold.Image.ID
			hold.Release()
		}
		sb, err := b.p.Provider.Create(t.Context(), providers.Spec{Name: providers.Name("x"), Source: providers.Source{Snapshot: ref}})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if _, err := sb.Exec(t.Context(), providers.Command{Args: []string{"cat", "/opt/agent"}, Stdout: &out}); err != nil || out.String() != "ready\n" {
			t.Errorf("the agent is not there: %q %v", out.String(), err)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAgentLayerOfAReferenceThatMoved: a layer is of the image that the reference leads
// to now, if it leads anywhere.
func TestAgentLayerOfAReferenceThatMoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		hold, _, err := b.get(nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		hold.Release()
		for _, c := range []struct {
			now   providers.Image
			err   error
			moves bool
			found bool
		}{
			{providers.Image{ID: hold.Image.Labels[baseLabel]}, nil, true, true},
			{providers.Image{ID: "another"}, nil, true, false},
			{providers.Image{ID: "another"}, nil, false, true},
			{providers.Image{}, errors.New("not here"), true, true},
		} {
			env := snapshots.Request{Check: func(context.Context, string) (providers.Image, error) { return c.now, c.err }}
			_, err := b.images().findLayer(t.Context(), env, c.moves, hold.Image.ID)
			if (err == nil) != c.found || err != nil && !providers.Is(err, providers.KindNotFound) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

// keeping is a provider that counts what it is asked to keep.
type keeping struct {
	*fake.Provider
	n int
}

func (k *keeping) Snapshot(ctx context.Context, id providers.ID, name string, labels map[string]string) (string, error) {
	k.n++
	return k.Provider.Snapshot(ctx, id, name, labels)
}

// TestAgentLayerThatHoldsASecret is not kept, and the failure names the file.
func TestAgentLayerThatHoldsASecret(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		kept := &keeping{Provider: fake.New(fake.Options{World: b.world})}
		b.p.Provider, b.p.has = kept, "x\n"+canary+"\n"
		_, req, err := b.get(nil, 1)
		if !providers.Is(err, providers.KindInvalid) || !strings.Contains(err.Error(), "/opt/b was left with a known secret") || strings.Contains(err.Error(), canary) {
			t.Errorf("%v", err)
		}
		f, ok := errors.AsType[*trials.Failure](unbuilt(req, err))
		if !ok || f.Exception != trials.ExcAgentSetup || f.Blame != trials.BlameInfrastructure {
			t.Errorf("failure %+v", f)
		}
		if kept.n > 0 {
			t.Error("it was kept")
		}
	})
}

// TestAgentLayerFailures: each is told once, as what it is, and what was half made goes.
func TestAgentLayerFailures(t *testing.T) {
	t.Parallel()
	refused := providers.Errorf(providers.KindInvalid, "install", "npm says no")
	for name, c := range map[string]struct {
		put     error
		fault   fake.Fault
		exc     string
		message string
		after   int32 // installations, when a later process asks again
	}{
		"installation":      {put: refused, exc: trials.ExcAgentSetup, message: "npm says no", after: 1},
		"provider away":     {put: providers.Errorf(providers.KindUnavailable, "exec", "gone"), exc: trials.ExcProvider, message: "gone", after: 2},
		"environment":       {fault: fake.Fault{Op: fake.OpBuild, Effect: fake.Refuse, Kind: providers.KindInvalid}, exc: trials.ExcRuntime, message: "injected", after: 0},
		"does not start":    {fault: fake.Fault{Op: fake.OpCreate, Nth: 3, Effect: fake.Die, Death: providers.Death{ExitCode: 9}}, exc: trials.ExcRuntime, message: "does not start", after: 2},
		"image cannot exec": {fault: fake.Fault{Op: fake.OpCreate, Nth: 1, Effect: fake.Refuse, Kind: providers.KindInvalid}, exc: trials.ExcRuntime, message: "does not start", after: 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBench(t)
				b.put.fail = c.put
				if c.fault.Op != "" {
					b.world.Inject(c.fault)
				}
				for range 2 {
					_, req, err := b.get(nil, 1)
					if err == nil {
						break
					}
					if !strings.Contains(err.Error(), c.message) {
						t.Errorf("%v", err)
					}
					r := newRig(t, nil)
					f := New(Options{Provider: b.p, Events: r.events, Logger: slog.New(slog.DiscardHandler)}).begin(&r.try).explain(t.Context(), trials.PhaseEnvironmentSetup, time.Second, unbuilt(req, err))
					if f.Exception != c.exc {
						t.Errorf("%s: %+v", err, f)
					}
				}
				if got := b.put.times.Load(); got != c.after {
					t.Errorf("%d installations, want %d", got, c.after)
				}
			})
		})
	}
}

// TestAgentIsNotInstalledWhereNothingCanLook: an image that cannot be searched for
// secrets is known before an installation is spent on it.
func TestAgentIsNotInstalledWhereNothingCanLook(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.p.blind = true
		_, _, err := b.get(nil, 1)
		if !providers.Is(err, providers.KindUnsupported) || !strings.Contains(err.Error(), "find: not found") || b.put.times.Load() != 0 {
			t.Errorf("%d installations, %v", b.put.times.Load(), err)
		}
	})
}

// TestProofWithoutRoom: that others have all of a provider is not the build's failure.
func TestProofWithoutRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.world.Inject(fake.Fault{Op: fake.OpCreate, Nth: 1, Effect: fake.Refuse, Kind: providers.KindExhausted})
		task := writeTask(t, nil)
		for n := range 2 {
			im := b.images()
			env, err := im.Environment(task, trials.NewTrialConfig(trials.TaskConfig{}), 1)
			if err != nil {
				t.Fatal(err)
			}
			hold, err := im.Get(t.Context(), env)
			hold.Release()
			if first := n == 0; first != providers.Is(err, providers.KindExhausted) {
				t.Errorf("process %d: %v", n, err)
			}
		}
	})
}

// TestSecretInABuildContext is the user's own: they are told, and it is built.
func TestSecretInABuildContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		im := b.images()
		var said []string
		im.OnNote = func(code, words string) { said = append(said, code+": "+words) }
		env, err := im.Environment(writeTask(t, map[string]string{"environment/.env": "KEY=" + canary}), trials.NewTrialConfig(trials.TaskConfig{}), 1)
		if err != nil {
			t.Fatal(err)
		}
		hold, err := im.Get(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		hold.Release()
		if len(said) != 1 || !strings.Contains(said[0], "environment/.env holds a known secret (the value of MY_TOKEN)") || strings.Contains(said[0], canary) {
			t.Errorf("said %q", said)
		}
	})
}

func TestFirstSecret(t *testing.T) {
	t.Parallel()
	d := redact.NewDetector(map[string]string{canary: ""})
	for in, want := range map[string]string{
		"":                            "",
		"/a\n3\nabc/b\n0\n":           "",
		"/a\n3\nabc/b\n23\n" + canary: "/b",
		"/a b\n 23\n" + canary:        "/a b",
		"/a\nno\n":                    "error",
		"/a\n99\nabc":                 "error",
		"/a":                          "error",
	} {
		name, _, err := firstSecret(bufio.NewReader(strings.NewReader(in)), d)
		if err != nil {
			name = "error"
		}
		if name != want {
			t.Errorf("%q: %q %v, want %q", in, name, err, want)
		}
	}
}

// TestPlaceOfABuildIsFreeWhenItsSandboxIs: what cannot be removed keeps it.
func TestPlaceOfABuildIsFreeWhenItsSandboxIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		im := b.images()
		env, err := im.Environment(writeTask(t, nil), trials.NewTrialConfig(trials.TaskConfig{}), 1)
		if err != nil {
			t.Fatal(err)
		}
		free := 0
		env.Slot = func(context.Context) (func(), error) { return func() { im.OnFree(func() { free++ }) }, nil }
		b.world.Inject(fake.Fault{Op: fake.OpDestroy, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		hold, err := im.Get(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Release()
		if stay := im.RemoveLeft(t.Context()); len(stay) != 1 || free != 0 {
			t.Errorf("%v stay, free %d times", stay, free)
		}
		b.world.Heal()
		if stay := im.RemoveLeft(t.Context()); len(stay) != 0 || free != 1 || b.world.Left() != 0 {
			t.Errorf("%v stay, free %d times, %d left", stay, free, b.world.Left())
		}
	})
}
