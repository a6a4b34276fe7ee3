package plane_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"harborgate/providers"
	"harborgate/providers/fake/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a plane on a socket file, through wrap.
func serve(t *testing.T, c plane.Config, wrap func(http.Handler) http.Handler) (*plane.Plane, *plane.Client) {
	t.Helper()
	p := open(t, c, start())
	address := "unix:" + filepath.Join(t.TempDir(), "s")
	l, err := plane.Listen(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: wrap(plane.Handler(p))}}
	s.Start()
	client, err := plane.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		s.Close()
	})
	return p, client
}

func plain(h http.Handler) http.Handler { return h }

// control is what a Plane and a Client have in common.
type control interface {
	Create(ctx context.Context, s plane.Sandbox) (providers.ID, time.Duration, error)
	Delete(ctx context.Context, id providers.ID) (time.Duration, error)
	Exec(ctx context.Context, id providers.ID) (time.Duration, error)
	Check(ctx context.Context) (time.Duration, error)
	List(ctx context.Context, sel providers.Selector) ([]plane.Sandbox, time.Duration, error)
	Inject(ctx context.Context, faults ...plane.Fault) error
	Heal(ctx context.Context) error
}

// outcome is what a call gave.
type outcome struct {
	Got  any
	Wait time.Duration
	Err  string
	Kind providers.Kind
	Died bool
}

func outcomeOf(got any, wait time.Duration, err error) outcome {
	if err == nil {
		return outcome{Got: got, Wait: wait}
	}
	return outcome{Err: err.Error(), Kind: providers.KindOf(err), Died: hasDied(err)}
}

func create(ctx context.Context, c control, name string) outcome {
	id, wait, err := c.Create(ctx, plane.Sandbox{Name: name, Labels: map[string]string{"k": name}})
	return outcomeOf(id, wait, err)
}

func took(wait time.Duration, err error) outcome { return outcomeOf(nil, wait, err) }

// steps are calls to a plane that has room for two and reads two a minute.
var steps = []struct {
	name string
	do   func(ctx context.Context, c control) outcome
}{
	{"create", func(ctx context.Context, c control) outcome { return create(ctx, c, "a") }},
	{"the same name", func(ctx context.Context, c control) outcome { return create(ctx, c, "a") }},
	{"another", func(ctx context.Context, c control) outcome { return create(ctx, c, "b") }},
	{"no room", func(ctx context.Context, c control) outcome { return create(ctx, c, "c") }},
	{"exec", func(ctx context.Context, c control) outcome { return took(c.Exec(ctx, "sim-2")) }},
	{"exec in none", func(ctx context.Context, c control) outcome { return took(c.Exec(ctx, "sim-9")) }},
	{"delete", func(ctx context.Context, c control) outcome { return took(c.Delete(ctx, "sim-1")) }},
	{"delete none", func(ctx context.Context, c control) outcome { return took(c.Delete(ctx, "sim-9")) }},
	{"check", func(ctx context.Context, c control) outcome { return took(c.Check(ctx)) }},
	{"list", func(ctx context.Context, c control) outcome {
		found, wait, err := c.List(ctx, providers.Selector{Labels: map[string]string{"k": ""}})
		if len(found) != 1 || found[0].Name != "b" {
			return outcome{Got: found}
		}
		return took(wait, err)
	}},
	{"too often", func(ctx context.Context, c control) outcome { return took(c.Check(ctx)) }},
	{"a wrong fault", func(ctx context.Context, c control) outcome {
		return took(0, c.Inject(ctx, plane.Fault{Effect: "odd"}))
	}},
	{"a fault", func(ctx context.Context, c control) outcome {
		return took(0, c.Inject(ctx, plane.Fault{Effect: plane.Down}))
	}},
	{"down", func(ctx context.Context, c control) outcome { return took(c.Delete(ctx, "sim-2")) }},
	{"healed", func(ctx context.Context, c control) outcome { return took(0, c.Heal(ctx)) }},
	{"up", func(ctx context.Context, c control) outcome { return took(c.Delete(ctx, "sim-2")) }},
}

// From another process a plane is what it is in this one: answers, errors, counters.
func TestClientIsThePlane(t *testing.T) {
	t.Parallel()
	config := plane.Config{
		Limits: plane.Size{Sandboxes: 2}, Rates: map[plane.Op]plane.Rate{plane.OpRead: {PerMin: 2}},
		Latency: map[plane.Op]plane.Latency{plane.OpCreate: {Sec: 3}},
	}
	near := open(t, config, start())
	_, far := serve(t, config, plain)
	for _, s := range steps {
		if diff := cmp.Diff(s.do(t.Context(), near), s.do(t.Context(), far)); diff != "" {
			t.Errorf("%s, in this process and in another: %s", s.name, diff)
		}
	}
	got, err := far.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	balanced(t, got)
	if diff := cmp.Diff(counters(t, near), got); diff != "" {
		t.Error(diff)
	}
	if got.Quota() != 1 || got.Throttled() != 1 || got.Deleted != 2 {
		t.Errorf("%+v", got)
	}
}

// When the answer to a create does not come, nothing stays.
func TestUnclearCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p, far := serve(t, plane.Config{}, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/sandboxes" {
				h.ServeHTTP(w, r)
				return
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			cancel()
			<-r.Context().Done()
		})
	})
	if _, _, err := far.Create(ctx, plane.Sandbox{Name: "a"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c := counters(t, p)
	if c.Calls[plane.OpCreate].Done != 1 || c.InUse.Sandboxes != 0 {
		t.Errorf("%+v", c)
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	far, err := plane.Dial("unix:" + filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.Check(t.Context()); !providers.Is(err, providers.KindUnavailable) {
		t.Error(err)
	}
}

// The user wrote none of the addresses that requests have.
func TestUnreachablePlaneIsNamedAsItWasWritten(t *testing.T) {
	t.Parallel()
	socket := "unix:" + filepath.Join(t.TempDir(), "none")
	for address, listen := range map[string]string{socket: socket, "http://127.0.0.1:1": "127.0.0.1:1"} {
		far, err := plane.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = far.Check(t.Context())
		want := "no simulated provider answers at " + address + ": start it with harbor-sim provider --config FILE --listen " + listen + " (dial "
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "/check") {
			t.Errorf("%v\nwant %s…", err, want)
		}
	}
}

func TestDialRefusesOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost:1", "https://x", "http://"} {
		if _, err := plane.Dial(address); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
}
