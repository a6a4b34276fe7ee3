package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harborgate/internal/shares"
	"harborgate/providers"
	"harborgate/providers/fake"
)

// foreign is a provider that lists what others have there as well.
type foreign struct {
	providers.Provider
	more []providers.Resource
}

func (f *foreign) List(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	out, err := f.Provider.List(ctx, sel)
	for _, r := range f.more {
		if sel.Matches(r.Name, r.Labels) {
			out = append(out, r)
		}
	}
	return out, err
}

func TestB127SweepTakesWhatTheDeadLeftAndNothingElse(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	live, err := shares.Register(a.Dirs.State)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	dead := shares.Owner{ID: "4194305-1-00000000-00000000", Host: a.owner.Host} // beyond the largest pid
	put(t, filepath.Join(a.Dirs.State, "owners", dead.ID), "")
	soon, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	w := fake.NewWorld()
	p := &foreign{Provider: fake.New(fake.Options{World: w})}
	for what, l := range map[string]providers.Labels{
		"own":                     {Owner: a.owner.ID, Host: a.owner.Host, Expires: soon},
		"own, expired":            {Owner: a.owner.ID, Host: a.owner.Host, Expires: past},
		"live":                    {Owner: live.ID, Host: live.Host, Expires: soon},
		"live, expired":           {Owner: live.ID, Host: live.Host, Expires: past},
		"dead":                    {Owner: dead.ID, Host: dead.Host, Expires: soon},
		"unknown owner":           {Owner: "gone", Host: a.owner.Host, Expires: soon},
		"another host":            {Owner: "x", Host: "elsewhere", Expires: soon},
		"another host, expired":   {Owner: "x", Host: "elsewhere", Expires: past},
		"another host, no clock":  {Owner: "x", Host: "elsewhere", Expires: time.Unix(1<<40, 0)},
		"own, no clock":           {Owner: a.owner.ID, Host: a.owner.Host, Expires: time.Unix(1, 0)},
		"dead, no clock":          {Owner: dead.ID, Host: dead.Host, Expires: time.Unix(1<<40, 0)},
		"another host, same name": {Owner: live.ID, Host: "elsewhere", Expires: soon},
	} {
		l.Trial = what
		if _, err := p.Create(t.Context(), providers.Spec{Name: providers.Name(what), Source: providers.Source{Image: "debian"}, Labels: l}); err != nil {
			t.Fatal(err)
		}
	}
	deadLabels := providers.Labels{Owner: dead.ID, Host: dead.Host, Expires: past}.Map()
	incomplete := map[string]string{providers.LabelOwner: dead.ID, providers.LabelHost: dead.Host}
	p.more = []providers.Resource{
		{ID: "named otherwise", Name: "postgres", Labels: deadLabels},
		{ID: "named alike", Name: "hg-postgres", Labels: deadLabels},
		{ID: "without labels", Name: providers.Name("y")},
		{ID: "with half of them", Name: providers.Name("z"), Labels: incomplete},
		{ID: "network", Kind: providers.ResourceNetwork, Name: providers.Name("n"), Labels: deadLabels},
	}

	found, err := a.Leftovers(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range found {
		if l.Why == "" {
			t.Errorf("%s: nobody knows why", l.ID)
		}
		if l.Kind == providers.ResourceNetwork {
			got = append(got, string(l.ID))
		} else {
			got = append(got, l.Labels[providers.LabelTrial])
		}
	}
	slices.Sort(got)
	want := []string{"another host, expired", "dead", "dead, no clock", "network", "unknown owner"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("leftovers (-want +got):\n%s", diff)
	}
	p.more = nil
	if err := a.Sweep(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if n := w.Left(); n != 8 {
		t.Errorf("%d are left", n)
	}
	if !a.owner.Alive(live.ID) {
		t.Error("the living was buried")
	}
	w.Clear()
}

func TestSweepThatFailsBuriesNobody(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	w := fake.NewWorld()
	p := fake.New(fake.Options{World: w})
	labels := providers.Labels{Owner: "gone", Host: a.owner.Host, Expires: time.Now()}
	for i := range 3 {
		if _, err := p.Create(t.Context(), providers.Spec{Name: providers.Name(fmt.Sprint(i)), Source: providers.Source{Image: "debian"}, Labels: labels}); err != nil {
			t.Fatal(err)
		}
	}
	w.Inject(fake.Fault{Op: fake.OpDestroy, Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable})
	err := a.Sweep(t.Context(), p)
	if !providers.Is(err, providers.KindUnavailable) {
		t.Errorf("%v", err)
	}
	if left, lerr := p.List(t.Context(), providers.Selector{}); lerr != nil || len(left) != 1 || !strings.Contains(fmt.Sprint(err), left[0].Name+" stays") {
		t.Errorf("%v does not name what stays: %v %v", err, left, lerr)
	}
	if n := w.Left(); n != 1 {
		t.Errorf("%d are left: one failure kept the others", n)
	}
	w.Heal()
	w.Inject(fake.Fault{Op: fake.OpList, Effect: fake.Refuse, Kind: providers.KindDenied})
	if err := a.Sweep(t.Context(), p); !providers.Is(err, providers.KindDenied) {
		t.Errorf("%v", err)
	}
	w.Clear()
}

// A process that ended in an outage left its share: who sweeps at the provider gives it back.
func TestSweepGivesBackTheSharesOfTheDead(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	dead, err := shares.Register(a.Dirs.State)
	if err != nil {
		t.Fatal(err)
	}
	dead.ID = "4194305-1-00000000-00000000" // beyond the largest pid
	pool, err := dead.Pool("fake", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := pool.Acquire(t.Context(), shares.Need{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := errors.Join(pool.Close(), dead.Close()); err != nil {
		t.Fatal(err)
	}
	left := func() shares.Amount {
		all, err := a.owner.Standings()
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0].Use
	}
	p, err := a.Provider("fake")
	if err != nil || left().Sandboxes != 1 {
		t.Fatal(err, left())
	}
	if err := a.Sweep(t.Context(), p); err != nil || left() != (shares.Amount{}) {
		t.Errorf("%v, %+v count", err, left())
	}
}

// What a process was writing when it died goes; what may be written right now stays.
func TestSweepRemovesHalfWrittenFiles(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	old := time.Now().Add(-2 * strayAge)
	for _, name := range []string{"snapshots/docker/.k.json.123", "snapshots/docker/k.json", ".host-1", "new/.version.1"} {
		path := filepath.Join(a.Dirs.State, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, path, "half")
		if !strings.HasPrefix(name, "new/") {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Sweep(t.Context(), fake.New(fake.Options{})); err != nil {
		t.Fatal(err)
	}
	for name, stays := range map[string]bool{"snapshots/docker/.k.json.123": false, "snapshots/docker/k.json": true, ".host-1": false, "new/.version.1": true} {
		if _, err := os.Stat(filepath.Join(a.Dirs.State, filepath.FromSlash(name))); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStateOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	lookup := hostOf(t, nil)
	a := newApp(t, lookup)
	newApp(t, lookup) // a second process of the same version
	if err := checkStateVersion(a.Dirs.State); err != nil {
		t.Error(err)
	}
	put(t, filepath.Join(a.Dirs.State, "version"), "2")
	if _, err := New(Options{Lookup: lookup, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("it was accepted")
	}
}

func TestFindDirs(t *testing.T) {
	t.Parallel()
	env := func(m map[string]string) func(string) (string, bool) {
		return func(n string) (string, bool) { v, ok := m[n]; return v, ok }
	}
	for _, c := range []struct {
		env  map[string]string
		want Dirs
	}{
		{map[string]string{"HOME": "/h"}, Dirs{"/h/.local/state/harborgate", "/h/.cache/harborgate"}},
		{map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "relative"}, Dirs{"/s/harborgate", "/h/.cache/harborgate"}},
		{map[string]string{"XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/c"}, Dirs{"/s/harborgate", "/c/harborgate"}},
	} {
		if got, err := FindDirs(env(c.env)); err != nil || got != c.want {
			t.Errorf("%v: %+v %v", c.env, got, err)
		}
	}
	if _, err := FindDirs(env(nil)); err == nil {
		t.Error("nowhere is somewhere")
	}
}
