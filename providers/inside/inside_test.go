package inside_test

import (
	"bytes"
	crand "crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harborgate/providers"
	"harborgate/providers/inside"
	"harborgate/providers/inside/insidetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a session to a companion of this test alone.
func open(t testing.TB, o inside.Options) *inside.Session {
	t.Helper()
	if o.ID == "" {
		o.ID = "box"
	}
	return insidetest.Start(t).Open(t, o)
}

// result is all that a command gives.
type result struct {
	providers.ExitStatus
	out, errs string
}

func (r result) String() string {
	return fmt.Sprintf("%v, out of memory %v, %d leftovers, output %q, errors %q", r.ExitStatus, r.OOMKilled, r.Leftovers, r.out, r.errs)
}

func sh(script string) providers.Command {
	return providers.Command{Args: []string{"sh", "-c", script}}
}

// run executes cmd, which must not fail to run.
func run(t testing.TB, s *inside.Session, cmd providers.Command) result {
	t.Helper()
	var out, errs bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout, cmd.Stderr = &out, &errs
	}
	st, err := s.Exec(t.Context(), cmd)
	if err != nil {
		t.Fatalf("exec %q: %v", cmd.Args, err)
	}
	return result{st, out.String(), errs.String()}
}

// wantKind fails unless err is of kind and its text has all parts.
func wantKind(t testing.TB, err error, kind providers.Kind, parts ...string) {
	t.Helper()
	if !providers.Is(err, kind) {
		t.Fatalf("error %v is of kind %v, want %v", err, providers.KindOf(err), kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within a minute: " + what)
		}
	}
}

func rand() string { return crand.Text() }
