package observe_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/providers/observe"
)

// driver answers every call with err.
type driver struct{ err error }

func (d *driver) Info() providers.Info        { return providers.Info{Name: "pool-2", Type: "test"} }
func (d *driver) Check(context.Context) error { return d.err }
func (d *driver) Create(context.Context, providers.Spec) (providers.Sandbox, error) {
	if d.err != nil {
		return nil, d.err
	}
	return &box{d}, nil
}

func (d *driver) List(context.Context, providers.Selector) ([]providers.Resource, error) {
	return nil, d.err
}
func (d *driver) Destroy(context.Context, providers.ID) error { return d.err }
func (d *driver) Close() error                                { return nil }

func (d *driver) CostPerHour(providers.Spec) (float64, bool) { return 1, true }

type box struct{ d *driver }

func (b *box) ID() providers.ID { return "box-1" }
func (b *box) Exec(context.Context, providers.Command) (providers.ExitStatus, error) {
	return providers.ExitStatus{Code: 3}, b.d.err
}
func (b *box) Upload(context.Context, io.Reader, string) error { return b.d.err }
func (b *box) Download(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader("tar"), failing{b.d})), nil
}

func (b *box) Expose(context.Context, func(net.Conn)) (string, func() error, error) {
	return "url", nil, b.d.err
}
func (b *box) Destroy(context.Context) error { return b.d.err }

// failing reads the driver's error, or the end.
type failing struct{ d *driver }

func (f failing) Read([]byte) (int, error) {
	if f.d.err != nil {
		return 0, f.d.err
	}
	return 0, io.EOF
}

// everything makes every call once.
func everything(ctx context.Context, p providers.Provider, sb providers.Sandbox) error {
	errs := []error{p.Check(ctx), p.Destroy(ctx, "other")}
	_, err := p.List(ctx, providers.Selector{})
	errs = append(errs, err)
	_, err = sb.Exec(ctx, providers.Command{
		Args: []string{"argument-canary"}, Env: map[string]string{"A": "env-canary"}, SecretEnv: map[string]string{"B": "secret-canary"},
		Stdin: strings.NewReader("stdin-canary"),
	})
	errs = append(errs, err, sb.Upload(ctx, strings.NewReader("upload-canary"), "/d"))
	stream, err := sb.Download(ctx, "/d")
	if err == nil {
		_, err = io.Copy(io.Discard, stream)
		_ = stream.Close()
		_ = stream.Close()
	}
	errs = append(errs, err)
	_, _, err = sb.Expose(ctx, nil)
	return errors.Join(append(errs, err, sb.Destroy(ctx))...)
}

func TestEveryCallIsNoted(t *testing.T) {
	t.Parallel()
	d := &driver{}
	var log bytes.Buffer
	var calls []observe.Call
	p := observe.New(d, observe.Options{
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnCall: func(c observe.Call) { calls = append(calls, c) },
	})
	sb, err := p.Create(t.Context(), providers.Spec{Name: "hg-x", Env: map[string]string{"C": "spec-canary"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := everything(t.Context(), p, sb); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"create box-1 ok", "check  ok", "destroy other ok", "list  ok", "exec box-1 ok",
		"upload box-1 ok", "download box-1 ok", "expose box-1 ok", "destroy box-1 ok",
	}
	var got []string
	for _, c := range calls {
		got = append(got, c.Op+" "+c.ID+" "+c.Outcome())
		if c.Provider != "pool-2" || c.Took < 0 || c.Start.IsZero() {
			t.Errorf("incomplete call %+v", c)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls:\n%q\nwant:\n%q", got, want)
	}
	if lines := strings.Count(log.String(), "level=DEBUG"); lines != len(want) {
		t.Errorf("%d lines at debug, want %d:\n%s", lines, len(want), log.String())
	}
	if strings.Contains(log.String(), "canary") {
		t.Errorf("the log shows what it must not:\n%s", log.String())
	}
}

func TestErrorsAreWarnedAboutAndNamed(t *testing.T) {
	t.Parallel()
	d := &driver{}
	var log bytes.Buffer
	outcomes := map[string]int{}
	p := observe.New(d, observe.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		OnCall: func(c observe.Call) { outcomes[c.Outcome()]++ },
	})
	sb, err := p.Create(t.Context(), providers.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	shared := &providers.Error{Op: "any", Kind: providers.KindExhausted, Err: errors.New("no room")}
	d.err = shared
	if err := everything(t.Context(), p, sb); !providers.Is(err, providers.KindExhausted) {
		t.Errorf("error %v lost its kind", err)
	}
	_, err = p.Create(t.Context(), providers.Spec{Name: "hg-new"})
	if err == nil || err.Error() != "pool-2 any: no room" {
		t.Errorf("error %v does not name the provider", err)
	}
	if shared.Provider != "" {
		t.Errorf("the driver's own error value was changed: %+v", shared)
	}
	if outcomes["Exhausted"] != 9 {
		t.Errorf("outcomes %v, want 9 Exhausted", outcomes)
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 9 || !strings.Contains(log.String(), "kind=Exhausted") {
		t.Errorf("%d warnings, want 9 with their kind:\n%s", got, log.String())
	}
}

func TestCancelIsNoWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	p := observe.New(&driver{err: context.Canceled}, observe.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := p.Check(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("a cancelled call was warned about:\n%s", log.String())
	}
}

func TestOptionalInterfacesStayReachable(t *testing.T) {
	t.Parallel()
	if _, ok := providers.As[providers.Coster](observe.New(&driver{}, observe.Options{})); !ok {
		t.Error("Coster is lost")
	}
	if _, ok := providers.As[providers.Stopper](observe.New(&driver{}, observe.Options{})); ok {
		t.Error("Stopper came from nowhere")
	}
}
