package providers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", "b"}, {"ab"}, {"b", "a"}, {"a", "b", ""}, {strings.Repeat("x", 5000)}, {"\xff", "/"}} {
		n := Name(parts...)
		if !IsName(n) || len(n) != len(NamePrefix)+16 {
			t.Errorf("%q makes %q", parts, n)
		}
		if other, ok := seen[n]; ok && strings.Join(other, "\x00") != strings.Join(parts, "\x00") {
			t.Errorf("%q and %q are both called %s", parts, other, n)
		}
		seen[n] = parts
	}
	if n := Name("job", "trial", "1", "env"); n != "hg-ocl3crqfo2bj55cf" {
		t.Errorf("names of earlier versions would not be found: %s", n)
	}
	good := Name("x")
	for _, n := range []string{"", "hg-", good[:18], good + "a", "x" + good, strings.ToUpper(good), "hg-aaaaaaaaaaaaaaa1", "hg-aaaaaaaaaaaaaaa\n", good + "\n", "hg-my-own-container", "hg_" + good[3:]} {
		if IsName(n) {
			t.Errorf("%q passes for a name of ours", n)
		}
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	l := Labels{Owner: "o", Host: "h", Job: "j", Trial: "t", Expires: time.Unix(1234567890, 0)}
	m := l.Map()
	got, ok := ParseLabels(m)
	if !ok || got != l {
		t.Errorf("%+v %v", got, ok)
	}
	for _, key := range []string{LabelOwner, LabelHost, LabelExpires} {
		without := l.Map()
		delete(without, key)
		if got, ok := ParseLabels(without); ok {
			t.Errorf("without %s: %+v", key, got)
		}
	}
	for _, bad := range []string{"", "soon", "1.5", "99999999999999999999"} {
		m[LabelExpires] = bad
		if _, ok := ParseLabels(m); ok {
			t.Errorf("expires %q passes", bad)
		}
	}
	if _, ok := ParseLabels(nil); ok {
		t.Error("no labels pass")
	}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"a": "1", "b": ""}
	for _, c := range []struct {
		sel  Selector
		want bool
	}{
		{Selector{}, true},
		{Selector{NamePrefix: "hg-"}, true}, {Selector{NamePrefix: "hg-x"}, true}, {Selector{NamePrefix: "hg-xy"}, false}, {Selector{NamePrefix: "g"}, false},
		{Selector{Labels: map[string]string{"a": "1"}}, true}, {Selector{Labels: map[string]string{"a": "2"}}, false},
		{Selector{Labels: map[string]string{"a": ""}}, true}, {Selector{Labels: map[string]string{"b": ""}}, true},
		{Selector{Labels: map[string]string{"c": ""}}, false}, {Selector{Labels: map[string]string{"a": "1", "c": "1"}}, false},
	} {
		if got := c.sel.Matches("hg-x", labels); got != c.want {
			t.Errorf("%+v: %v", c.sel, got)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("no route")
	death := &Death{ExitCode: 137, OOMKilled: true}
	for _, c := range []struct {
		err  error
		text string
		kind Kind
	}{
		{E(KindDenied, "check", cause), "check: no route", KindDenied},
		{&Error{Provider: "docker", Op: "exec", ID: "abc", Kind: KindUnavailable, Err: cause}, "docker exec abc: no route", KindUnavailable},
		{&Error{Kind: KindNotFound}, "NotFound", KindNotFound},
		{&Error{Op: "exec", Kind: KindUnavailable, Death: death}, "exec: the sandbox was killed because it ran out of memory", KindUnavailable},
		{&Error{Op: "create", Kind: KindRateLimited, RetryAfter: 3 * time.Second, Err: cause}, "create: no route (retry after 3s)", KindRateLimited},
		{Errorf(KindInvalid, "build", "line %d: %w", 3, cause), "build: line 3: no route", KindInvalid},
		{fmt.Errorf("wrapped: %w", E(KindExhausted, "create", cause)), "wrapped: create: no route", KindExhausted},
		{&Error{Kind: KindDenied, Op: "outer", Err: E(KindNotFound, "inner", cause)}, "outer: inner: no route", KindDenied},
		{context.DeadlineExceeded, "context deadline exceeded", KindTimeout},
		{context.Canceled, "context canceled", KindInternal},
		{cause, "no route", KindInternal},
	} {
		if c.err.Error() != c.text || KindOf(c.err) != c.kind || !Is(c.err, c.kind) {
			t.Errorf("%v (%s), want %s (%s)", c.err, KindOf(c.err), c.text, c.kind)
		}
	}
	if E(KindDenied, "x", nil) != nil || Is(nil, KindInternal) {
		t.Error("nil is no error")
	}
	if !errors.Is(Errorf(KindInvalid, "x", "y: %w", cause), cause) {
		t.Error("the cause is lost")
	}
}

func TestBareErrorsNameNoProvider(t *testing.T) {
	t.Parallel()
	cause := errors.New("boxes are gone")
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Error{Provider: "b", Op: "check", Err: cause}, "check: boxes are gone"},
		{&Error{Provider: "b", Err: cause}, "boxes are gone"},
		{cause, "boxes are gone"},
	} {
		if got := Bare(c.err, "b"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestKindsAreClosed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if s := k.String(); s == "" || seen[s] {
			t.Errorf("kind %d is called %q", k, s)
		} else {
			seen[s] = true
		}
	}
	if len(Kinds()) != int(KindTimeout)+1 || Kind(200).String() != "Internal" {
		t.Errorf("%v, an unknown one is %s", Kinds(), Kind(200))
	}
}

func TestDeathOf(t *testing.T) {
	t.Parallel()
	d := Death{ExitCode: 3, Output: "boom"}
	err := fmt.Errorf("phase: %w", &Error{Op: "outer", Err: &Error{Op: "inner", Kind: KindUnavailable, Death: &d}})
	if got, ok := DeathOf(err); !ok || got != d || got.String() != "the sandbox's first process exited with code 3: boom" {
		t.Errorf("%+v %v", got, ok)
	}
	for _, err := range []error{nil, errors.New("x"), E(KindUnavailable, "exec", errors.New("x")), &Error{}} {
		if got, ok := DeathOf(err); ok {
			t.Errorf("%v: %+v", err, got)
		}
	}
	if s := (Death{ExitCode: 1}).String(); s != "the sandbox's first process exited with code 1" {
		t.Error(s)
	}
}

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    ExitStatus
		text string
		ok   bool
	}{
		{ExitStatus{}, "exit code 0", true}, {ExitStatus{Code: 3}, "exit code 3", false},
		{ExitStatus{Code: 137, Signal: 9}, "killed by signal 9", false}, {ExitStatus{OOMKilled: true}, "exit code 0", true},
	} {
		if c.s.String() != c.text || c.s.OK() != c.ok {
			t.Errorf("%+v: %s %v", c.s, c.s, c.s.OK())
		}
	}
}

func TestSourceKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s    Source
		want SourceKind
	}{
		{Source{Image: "x"}, SourceImage}, {Source{Build: &Build{}}, SourceBuild},
		{Source{Compose: &Compose{}}, SourceCompose}, {Source{Snapshot: "x"}, SourceSnapshot},
		{Source{}, ""}, {Source{Image: "x", Snapshot: "y"}, ""},
	} {
		if got, err := c.s.Kind(); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q %v", c.s, got, err)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	can := Capabilities{Sources: []SourceKind{SourceImage}, Networks: []NetworkMode{NetworkPublic}}
	good := Spec{Name: Name("x"), Source: Source{Image: "x"}}
	for name, c := range map[string]struct {
		change func(*Spec)
		kind   Kind
	}{
		"no source":      {func(s *Spec) { s.Source = Source{} }, KindInvalid},
		"own name":       {func(s *Spec) { s.Name = "mine" }, KindInvalid},
		"no helper":      {func(s *Spec) { s.NoHelper = true }, KindUnsupported},
		"build":          {func(s *Spec) { s.Source = Source{Build: &Build{}} }, KindUnsupported},
		"no network":     {func(s *Spec) { s.Network.Mode = NetworkNone }, KindUnsupported},
		"unknown mode":   {func(s *Spec) { s.Network.Mode = "half" }, KindUnsupported},
		"mounts":         {func(s *Spec) { s.Mounts = []Mount{{}} }, KindUnsupported},
		"GPUs":           {func(s *Spec) { s.Resources.GPUs = 1 }, KindUnsupported},
		"negative CPU":   {func(s *Spec) { s.Resources.CPUs = -1 }, KindInvalid},
		"negative PIDs":  {func(s *Spec) { s.Resources.PIDs = -1 }, KindInvalid},
		"negative disk":  {func(s *Spec) { s.Resources.DiskMiB = -1 }, KindInvalid},
		"negative bytes": {func(s *Spec) { s.Resources.MemoryMiB = -1 }, KindInvalid},
	} {
		s := good
		c.change(&s)
		if err := s.Validate(can); !Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good.Validate(can); err != nil {
		t.Error(err)
	}
}

// bare is a provider with nothing but a name; more has an ability.
type bare struct{ Provider }

type more struct{ Provider }

func (more) Size(context.Context) (Resources, error) { return Resources{CPUs: 3}, nil }

type wrapper struct{ Provider }

func (w wrapper) Unwrap() Provider { return w.Provider }

func TestAsLooksThroughDecorators(t *testing.T) {
	t.Parallel()
	s, ok := As[Sizer](wrapper{wrapper{more{}}})
	if !ok {
		t.Fatal("not found")
	}
	got, err := s.Size(t.Context())
	if diff := cmp.Diff(Resources{CPUs: 3}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, p := range []Provider{nil, bare{}, wrapper{bare{}}, wrapper{nil}, bare{more{}}} {
		if _, ok := As[Sizer](p); ok {
			t.Errorf("%T has a size", p)
		}
	}
}
