package snapshots

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"harborgate/internal/atomicfile"
	"harborgate/providers"
)

// Record is what the store knows of one image.
type Record struct {
	Key   Key       `json:"key"`
	ID    string    `json:"image"`
	Title string    `json:"title"`
	Made  time.Time `json:"made"`
	Bytes int64     `json:"bytes"`
	// Snapshot says that ID is a provider's snapshot and not an image.
	Snapshot bool `json:"snapshot,omitempty"`
	// Pulled is an image that was not made here. It is the user's.
	Pulled bool `json:"pulled,omitempty"`
	// Replaced are earlier images of the key that are not known to be gone: what they
	// were made from has changed since.
	Replaced []Replaced `json:"replaced,omitempty"`
}

// Replaced is an image that nobody starts from any more.
type Replaced struct {
	ID    string `json:"image"`
	Bytes int64  `json:"bytes"`
}

// Has reports whether the image is there. It builds nothing.
func (s *Store) Has(ctx context.Context, r Request) bool {
	_, ok := s.known(ctx, r)
	return ok
}

func (s *Store) known(ctx context.Context, r Request) (providers.Image, bool) {
	rec, err := s.read(r.Key)
	if err != nil {
		return providers.Image{}, false
	}
	img, err := r.Check(ctx, rec.ID)
	return img, err == nil
}

func (s *Store) read(key Key) (Record, error) {
	b, err := os.ReadFile(s.path(key, ".json"))
	if err != nil {
		return Record{}, err
	}
	var rec Record
	return rec, json.Unmarshal(b, &rec)
}

func (s *Store) remember(r Request, img providers.Image) error {
	rec := Record{Key: r.Key, ID: img.ID, Title: r.Title, Made: time.Now().UTC(), Bytes: img.Bytes, Snapshot: r.Snapshot, Pulled: r.Pulled}
	if was, err := s.read(r.Key); err == nil && !was.Pulled {
		rec.Replaced = was.Replaced
		if was.ID != rec.ID {
			rec.Replaced = append(rec.Replaced, Replaced{was.ID, was.Bytes})
		}
		rec.Replaced = slices.DeleteFunc(rec.Replaced, func(o Replaced) bool { return o.ID == rec.ID })
	}
	if err := os.Remove(s.path(r.Key, ".failed")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("an earlier failure of a build stays remembered", "title", r.Title, "error", err)
	}
	return s.write(rec)
}

func (s *Store) write(rec Record) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path(rec.Key, ".json"), b, 0o600)
}
