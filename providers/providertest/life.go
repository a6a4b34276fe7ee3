package providertest

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"harborgate/providers"
)

func createCases() []Case {
	return []Case{
		{"create/usable-at-once", nil, createUsable},
		{"create/late-entrypoint", []Need{NeedLate}, createLate},
		{"create/failing-entrypoint", []Need{NeedFailing}, createFailing},
		{"create/unknown-source", []Need{NeedUnknown}, createUnknown},
		{"create/invalid-specs", nil, createInvalid},
		{"create/name-taken", nil, createTaken},
		{"create/cancelled", nil, createCancelled},
		{"create/isolated", nil, createIsolated},
	}
}

func createUsable(ctx context.Context, e *Env) {
	sb := e.Create(ctx)
	if sb.ID() == "" {
		e.Errorf("the sandbox has no id")
	}
	e.Want(ctx, sb, "echo usable", "usable\n")
}

func createLate(ctx context.Context, e *Env) {
	sb := e.Create(ctx, func(s *providers.Spec) { s.Source = e.Harness.Sources.Late })
	e.Want(ctx, sb, "echo usable", "usable\n")
	e.Want(ctx, sb, "i=0; while ! [ -e /tmp/entrypoint-done ]; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.05; done; echo done", "done\n")
}

// createFailing accepts the news from Create or from the first commands: an
// entrypoint may fail after any check.
func createFailing(ctx context.Context, e *Env) {
	s := e.Spec()
	s.Source = e.Harness.Sources.Failing
	sb, err := e.Provider.Create(ctx, s)
	if err == nil {
		e.keep(sb)
		err = e.Sh(ctx, sb, "sleep 30").Err
	}
	if err == nil {
		e.Fatalf("a sandbox whose entrypoint exits at once seems to work")
	}
	death, ok := providers.DeathOf(err)
	if !ok || death.ExitCode != 3 || !strings.Contains(death.Output, "cannot find the license") {
		e.Errorf("want a death with code 3 and the output, got %+v in error %v", death, err)
	}
}

func createUnknown(ctx context.Context, e *Env) {
	s := e.Spec()
	s.Source = e.Harness.Sources.Unknown
	sb, err := e.Provider.Create(ctx, s)
	if err == nil {
		e.keep(sb)
	}
	e.WantKind("create from an unknown source", err, providers.KindNotFound)
	e.wantNothing(ctx)
}

func (e *Env) wantNothing(ctx context.Context) {
	for _, r := range e.Mine(ctx) {
		e.Errorf("%s %s (%s) was left", r.Kind, r.ID, r.Name)
	}
}

func createInvalid(ctx context.Context, e *Env) {
	tests := []struct {
		what   string
		change func(*providers.Spec)
		kind   providers.Kind
	}{
		{"no source", func(s *providers.Spec) { s.Source = providers.Source{} }, providers.KindInvalid},
		{"two sources", func(s *providers.Spec) { s.Source.Image, s.Source.Snapshot = "a", "b" }, providers.KindInvalid},
		{"a human name", func(s *providers.Spec) { s.Name = "My Task" }, providers.KindInvalid},
		{"no name", func(s *providers.Spec) { s.Name = "" }, providers.KindInvalid},
		{"no helper", func(s *providers.Spec) { s.NoHelper = true }, providers.KindUnsupported},
		{"negative memory", func(s *providers.Spec) { s.Resources.MemoryMiB = -1 }, providers.KindInvalid},
		{"negative CPUs", func(s *providers.Spec) { s.Resources.CPUs = -0.5 }, providers.KindInvalid},
		{"negative PIDs", func(s *providers.Spec) { s.Resources.PIDs = -2 }, providers.KindInvalid},
		{"unknown network mode", func(s *providers.Spec) { s.Network.Mode = "telepathy" }, providers.KindUnsupported},
	}
	for _, test := range tests {
		s := e.Spec()
		test.change(&s)
		sb, err := e.Provider.Create(ctx, s)
		if err == nil {
			e.keep(sb)
		}
		e.WantKind("create with "+test.what, err, test.kind)
	}
	e.wantNothing(ctx)
}

func createTaken(ctx context.Context, e *Env) {
	s := e.Spec()
	first, err := e.Provider.Create(ctx, s)
	if err != nil {
		e.Fatalf("create: %v", err)
	}
	e.keep(first)
	second, err := e.Provider.Create(ctx, s)
	if err == nil {
		e.keep(second)
	}
	e.WantKind("create of a name that is taken", err, providers.KindAlreadyExists)
	e.Want(ctx, first, "echo alive", "alive\n")
	if n := len(e.sandboxes(ctx)); n != 1 {
		e.Errorf("%d sandboxes, want the first alone", n)
	}
}

// sandboxes lists the case's sandboxes without what belongs to them.
func (e *Env) sandboxes(ctx context.Context) []providers.Resource {
	return slices.DeleteFunc(e.Mine(ctx), func(r providers.Resource) bool { return r.Kind != providers.ResourceSandbox })
}

// createCancelled cancels at different moments. Whoever gets an error must find
// nothing left; a Create that was faster is fine.
func createCancelled(ctx context.Context, e *Env) {
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond} {
		short, cancel := context.WithTimeout(ctx, after)
		sb, err := e.Provider.Create(short, e.Spec())
		cancel()
		if err == nil {
			if err := sb.Destroy(ctx); err != nil {
				e.Errorf("destroy: %v", err)
			}
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) && !providers.Is(err, providers.KindTimeout) {
			e.Errorf("create cancelled after %s: %v, want the context's error", after, err)
		}
		e.wantNothing(ctx)
	}
}

func createIsolated(ctx context.Context, e *Env) {
	a, b := e.Create(ctx), e.Create(ctx)
	if a.ID() == b.ID() {
		e.Fatalf("two sandboxes have the id %s", a.ID())
	}
	e.Must(ctx, a, "echo a > /tmp/mine")
	e.Want(ctx, b, "[ -e /tmp/mine ] || echo nothing", "nothing\n")
}

func listCases() []Case {
	return []Case{
		{"list/labels", nil, listLabels},
		{"list/selects", nil, listSelects},
		{"list/of-another-instance", nil, listOther},
	}
}

func listLabels(ctx context.Context, e *Env) {
	s := e.Spec()
	s.Deadline = time.Now().Add(30 * time.Minute)
	sb, err := e.Provider.Create(ctx, s)
	if err != nil {
		e.Fatalf("create: %v", err)
	}
	e.keep(sb)
	mine := e.Mine(ctx)
	if len(mine) == 0 {
		e.Fatalf("the sandbox is not in the list")
	}
	for _, r := range mine {
		e.wantLabels(r, s.Labels)
	}
	found := e.sandboxes(ctx)
	if len(found) != 1 || found[0].ID != sb.ID() || found[0].Name != s.Name {
		e.Errorf("want one sandbox %s named %s, got %+v", sb.ID(), s.Name, found)
		return
	}
	if age := time.Since(found[0].Created); age < -time.Minute || age > time.Hour {
		e.Errorf("created %s, which is %s ago", found[0].Created, age)
	}
}

func (e *Env) wantLabels(r providers.Resource, labels providers.Labels) {
	for k, want := range labels.Map() {
		if r.Labels[k] != want {
			e.Errorf("%s %s has label %s=%q, want %q", r.Kind, r.ID, k, r.Labels[k], want)
		}
	}
	if got, ok := providers.ParseLabels(r.Labels); !ok || !got.Expires.Equal(labels.Expires) {
		e.Errorf("%s %s expires at %s, want %s", r.Kind, r.ID, got.Expires, labels.Expires)
	}
}

func listSelects(ctx context.Context, e *Env) {
	e.Create(ctx)
	label := providers.LabelTrial
	tests := []struct {
		what string
		sel  providers.Selector
		want bool
	}{
		{"its label", providers.Selector{Labels: map[string]string{label: e.trial()}}, true},
		{"its label and name", providers.Selector{Labels: map[string]string{label: e.trial()}, NamePrefix: providers.NamePrefix}, true},
		{"the presence of a label", providers.Selector{Labels: map[string]string{label: e.trial(), providers.LabelOwner: ""}}, true},
		{"another value", providers.Selector{Labels: map[string]string{label: e.trial() + "x"}}, false},
		{"a label that is not there", providers.Selector{Labels: map[string]string{label: e.trial(), "harborgate.none": ""}}, false},
		{"another name", providers.Selector{Labels: map[string]string{label: e.trial()}, NamePrefix: "zz-"}, false},
		{"one label of two", providers.Selector{Labels: map[string]string{label: e.trial(), providers.LabelOwner: "nobody at all"}}, false},
	}
	for _, test := range tests {
		list, err := e.Provider.List(ctx, test.sel)
		if err != nil || (len(list) > 0) != test.want {
			e.Errorf("list by %s: %d resources, want some: %v, error %v", test.what, len(list), test.want, err)
		}
	}
}

// other opens a second instance.
func (e *Env) other() (p providers.Provider, done func()) {
	p, err := e.Harness.Open()
	if err != nil {
		e.Fatalf("open a second instance: %v", err)
	}
	return p, func() {
		if err := p.Close(); err != nil {
			e.Errorf("close the second instance: %v", err)
		}
	}
}

func listOther(ctx context.Context, e *Env) {
	sb := e.Create(ctx)
	p, done := e.other()
	defer done()
	list, err := p.List(ctx, providers.Selector{Labels: map[string]string{providers.LabelTrial: e.trial()}})
	if err != nil || !slices.ContainsFunc(list, func(r providers.Resource) bool { return r.ID == sb.ID() }) {
		e.Errorf("another instance does not list %s: %+v, error %v", sb.ID(), list, err)
	}
}

func destroyCases() []Case {
	return []Case{
		{"destroy/removes", nil, destroyRemoves},
		{"destroy/twice", nil, destroyTwice},
		{"destroy/unknown-id", nil, destroyUnknown},
		{"destroy/from-another-instance", nil, destroyOther},
		{"destroy/while-a-command-runs", nil, destroyRunning},
		{"destroy/then-nothing-works", nil, destroyThen},
		{"destroy/name-is-free-again", nil, destroyFreesName},
	}
}

func destroyRemoves(ctx context.Context, e *Env) {
	sb := e.Create(ctx)
	e.Within("destroy", func() {
		if err := sb.Destroy(ctx); err != nil {
			e.Errorf("destroy: %v", err)
		}
	})
	e.wantNothing(ctx)
}

func destroyTwice(ctx context.Context, e *Env) {
	sb := e.Create(ctx)
	for range 2 {
		if err := sb.Destroy(ctx); err != nil {
			e.Errorf("destroy: %v", err)
		}
		if err := e.Provider.Destroy(ctx, sb.ID()); err != nil {
			e.Errorf("destroy by id: %v", err)
		}
	}
}

func destroyUnknown(ctx context.Context, e *Env) {
	if err := e.Provider.Destroy(ctx, "hg-no-such-sandbox"); err != nil {
		e.Errorf("destroy of an id that is not there: %v", err)
	}
}

func destroyOther(ctx context.Context, e *Env) {
	sb := e.Create(ctx)
	p, done := e.other()
	defer done()
	if err := p.Destroy(ctx, sb.ID()); err != nil {
		e.Errorf("destroy by another instance: %v", err)
	}
	e.wantNothing(ctx)
	e.WantKind("exec after another instance destroyed it", e.Sh(ctx, sb, "true").Err, providers.KindNotFound, providers.KindUnavailable)
}

func destroyRunning(ctx context.Context, e *Env) {
	sb := e.Create(ctx)
	r := e.start(ctx, sb, providers.Command{}, "echo ready; sleep 1000")
	if err := sb.Destroy(ctx); err != nil {
		e.Errorf("destroy: %v", err)
	}
	out := r.wait("exec in a destroyed sandbox")
	e.WantKind("exec in a destroyed sandbox", out.Err, providers.KindNotFound, providers.KindUnavailable)
	e.wantNothing(ctx)
}

func destroyThen(ctx context.Context, e *Env) {
	sb := e.Create(ctx)
	if err := sb.Destroy(ctx); err != nil {
		e.Fatalf("destroy: %v", err)
	}
	calls := map[string]func() error{
		"exec":   func() error { return e.Sh(ctx, sb, "true").Err },
		"upload": func() error { return sb.Upload(ctx, archive(e, file("f", "x")), "/up") },
		"download": func() error {
			_, err := readAll(ctx, sb, "/etc")
			return err
		},
		"expose": func() error {
			_, _, err := sb.Expose(ctx, func(c net.Conn) { _ = c.Close() })
			return err
		},
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		e.Within(name+" after destroy", func() {
			e.WantKind(name+" after destroy", calls[name](), providers.KindNotFound, providers.KindUnavailable)
		})
	}
}

func destroyFreesName(ctx context.Context, e *Env) {
	s := e.Spec()
	for i := range 2 {
		sb, err := e.Provider.Create(ctx, s)
		if err != nil {
			e.Fatalf("create %d of the same name: %v", i+1, err)
		}
		if err := sb.Destroy(ctx); err != nil {
			e.Errorf("destroy: %v", err)
		}
	}
}
