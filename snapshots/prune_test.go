package snapshots

import (
	"os"
	"slices"
	"testing"
	"time"
)

func TestPolicyKeepsWhatIsUsedAndWhatWasUsedLast(t *testing.T) {
	t.Parallel()
	now := time.Now()
	kept := func(key string, ago time.Duration, bytes int64, inUse bool) Kept {
		return Kept{Record: Record{Key: Key(key), Bytes: bytes}, Used: now.Add(-ago), InUse: inUse}
	}
	all := []Kept{kept("a", 0, 5, false), kept("b", time.Hour, 5, true), kept("c", 2*time.Hour, 5, false), kept("d", 3*time.Hour, 1, false), kept("e", 100*time.Hour, 1, true)}
	for _, c := range []struct {
		policy Policy
		gone   string
	}{
		{Policy{}, ""},
		{Policy{Unused: 90 * time.Minute}, "cd"},
		{Policy{Bytes: 11}, "c"},
		{Policy{Bytes: 1}, "acd"},
		{Policy{Bytes: 100}, ""},
		{Policy{Bytes: 10, Unused: time.Minute}, "cd"},
	} {
		got := ""
		for _, k := range c.policy.Surplus(all, now) {
			got += string(k.Key)
		}
		if got != c.gone {
			t.Errorf("%+v removes %q, want %q", c.policy, got, c.gone)
		}
	}
}

func TestSurveyKnowsUse(t *testing.T) {
	t.Parallel()
	s, r := store(t, t.TempDir()), &registry{}
	first, second := ensure(t, s, r.request("a", 1)), ensure(t, s, r.request("b", 1))
	first.Release()
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.path("a", ".use"), old, old); err != nil {
		t.Fatal(err)
	}
	all, err := s.Survey()
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	i := slices.IndexFunc(all, func(k Kept) bool { return k.Key == "b" })
	if !all[i].InUse || all[1-i].InUse {
		t.Errorf("%+v", all)
	}
	second.Release()
	ensure(t, s, r.request("a", 2)).Release()
	if all, err = s.Survey(); err != nil || all[0].Key != "a" || all[0].InUse || all[1].InUse {
		t.Errorf("%+v %v", all, err)
	}
}

// What was only pulled is the user's: it takes nothing of what images may have together.
func TestPulledImagesAreNotSurveyed(t *testing.T) {
	t.Parallel()
	s, r := store(t, t.TempDir()), &registry{}
	pulled := r.request("pulled", 1)
	pulled.Pulled = true
	ensure(t, s, pulled).Release()
	ensure(t, s, r.request("built", 1)).Release()
	if all, err := s.Survey(); err != nil || len(all) != 1 || all[0].Key != "built" {
		t.Errorf("%+v %v", all, err)
	}
}

// Who wants a layer wants its environment, too.
func TestRequestNeedsWhatItIsMadeFrom(t *testing.T) {
	t.Parallel()
	layer := &Request{Key: "layer", From: &Request{Key: "environment"}}
	if !layer.Needs("layer") || !layer.Needs("environment") || layer.Needs("other") {
		t.Error("layer and environment are needed, and nothing else")
	}
}
