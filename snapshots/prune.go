package snapshots

import (
	"os"
	"slices"
	"time"

	"github.com/gofrs/flock"
)

// Kept is an image of the store, with how it is used.
type Kept struct {
	Record
	Used  time.Time `json:"used"` // last, by any process; when it was made, if never
	InUse bool      `json:"in_use"`
	// Obsolete is an image that was replaced: its key has another one now.
	Obsolete bool `json:"obsolete,omitempty"`
}

// Survey returns what was made for the store, what was used last first.
func (s *Store) Survey() ([]Kept, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	out := make([]Kept, 0, len(all))
	for _, rec := range all {
		if rec.Pulled {
			continue
		}
		k := Kept{Record: rec, Used: s.used(rec)}
		if k.InUse, err = s.InUse(rec.Key); err != nil {
			return nil, err
		}
		out = append(out, k)
		for _, o := range rec.Replaced {
			old := k
			old.ID, old.Bytes, old.Title, old.Replaced = o.ID, o.Bytes, rec.Title+", replaced", nil
			old.Used, old.Obsolete = rec.Made, true
			out = append(out, old)
		}
	}
	slices.SortFunc(out, func(a, b Kept) int { return b.Used.Compare(a.Used) })
	return out, nil
}

// used is when a hold of an image was last taken or the last one given back; when it was
// made, if never.
func (s *Store) used(rec Record) time.Time {
	if fi, err := os.Stat(s.path(rec.Key, ".use")); err == nil && fi.ModTime().After(rec.Made) {
		return fi.ModTime().UTC()
	}
	return rec.Made
}

// usedNow notes that. Who prunes can do without.
func (s *Store) usedNow(key Key) {
	now := time.Now()
	_ = os.Chtimes(s.path(key, ".use"), now, now)
}

// InUse reports whether any process of this host uses, builds or removes an image.
func (s *Store) InUse(key Key) (bool, error) {
	l := flock.New(s.path(key, ".use"))
	free, err := l.TryLock()
	if free {
		err = l.Unlock()
	}
	return !free, err
}

// Policy is what a store may keep. Zero fields are no bound.
type Policy struct {
	Unused time.Duration // since the last use
	Bytes  int64         // of all images together, each with all of its layers
}

// Surplus returns what a policy does not let stay, of a survey: what was replaced, what
// was unused for too long, and what was used least lately of what is too much. Nothing
// that is in use.
func (p Policy) Surplus(all []Kept, now time.Time) []Kept {
	var out []Kept
	var sum int64
	for _, k := range all { // used last comes first
		old := p.Unused > 0 && now.Sub(k.Used) > p.Unused
		large := p.Bytes > 0 && sum+k.Bytes > p.Bytes
		if !k.InUse && (k.Obsolete || old || large) {
			out = append(out, k)
			continue
		}
		sum += k.Bytes
	}
	// With a record goes what is known of those that it replaced.
	slices.SortStableFunc(out, func(a, b Kept) int {
		switch {
		case a.Obsolete == b.Obsolete:
			return 0
		case a.Obsolete:
			return -1
		}
		return 1
	})
	return out
}
