package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"harborgate/providers"
)

// List returns all records.
func (s *Store) List() ([]Record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var out []Record
	for _, e := range entries {
		key, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		rec, err := s.read(Key(key))
		if err != nil {
			s.log.Warn("snapshot record is unreadable", "key", key, "error", err)
			continue
		}
		out = append(out, rec)
	}
	return out, nil
}

// Remove removes an image that no process uses, by means of remove, and its record, or
// what its record says of an image that was replaced. It reports false when the image is
// in use, was used since it was surveyed, or is none of the store's any more.
func (s *Store) Remove(ctx context.Context, k Kept, remove func(ctx context.Context, id string) error) (bool, error) {
	use := flock.New(s.path(k.Key, ".use"))
	ok, err := use.TryLock()
	if err != nil || !ok {
		return false, err
	}
	defer func() { _ = use.Unlock() }()
	now, ids, err := s.going(k)
	if err != nil {
		return false, fmt.Errorf("remove snapshot %s: %w", k.Key, err)
	}
	if len(ids) == 0 {
		return false, nil
	}
	for _, id := range ids {
		if err := remove(ctx, id); err != nil {
			if providers.Is(err, providers.KindDenied) {
				return false, nil
			}
			return false, fmt.Errorf("remove snapshot %s: %w", k.Key, err)
		}
	}
	if k.ID != now.ID {
		now.Replaced = slices.DeleteFunc(now.Replaced, func(o Replaced) bool { return o.ID == k.ID })
		return true, s.write(now)
	}
	return true, s.forget(k.Key)
}

// going reads a record again and lists what goes of it: another process may have built or
// used the image since.
func (s *Store) going(k Kept) (now Record, ids []string, err error) {
	now, err = s.read(k.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return now, nil, nil
	}
	own := k.ID == now.ID
	if err != nil || own && !k.Used.IsZero() && s.used(now).After(k.Used) {
		return now, nil, err
	}
	for _, o := range now.Replaced {
		if own || k.ID == o.ID {
			ids = append(ids, o.ID)
		}
	}
	if own {
		ids = append(ids, now.ID) // last: what is left is found by its record
	}
	return now, ids, nil
}

func (s *Store) forget(key Key) error {
	for _, ext := range []string{".json", ".log", ".failed"} {
		if err := os.Remove(s.path(key, ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove snapshot %s: %w", key, err)
		}
	}
	return nil
}

// RemoveUnknown removes an image of a key that the store has no record of, or has
// another one for: of a build whose process died before it wrote it down, or of an
// earlier one. It reports false when the key is in use or the image is known.
func (s *Store) RemoveUnknown(ctx context.Context, key Key, id string, remove func(ctx context.Context, id string) error) (bool, error) {
	use := flock.New(s.path(key, ".use"))
	ok, err := use.TryLock()
	if err != nil || !ok {
		return false, err
	}
	defer func() { _ = use.Unlock() }()
	if rec, err := s.read(key); err == nil && rec.ID == id {
		return false, nil
	}
	if err := remove(ctx, id); err != nil {
		if providers.Is(err, providers.KindDenied) {
			return false, nil
		}
		return false, fmt.Errorf("remove image %s: %w", id, err)
	}
	return true, nil
}
