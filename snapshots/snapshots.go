// Package snapshots turns "this environment is needed" into "this image exists":
// built once per content, whoever asks and however many ask at once.
//
//	hold, err := store.Ensure(ctx, snapshots.Request{Key: key, …})
//	defer hold.Release()
//
// Ensure is the only way to an image. Within a process callers of one key share
// one build; between processes of a host a lock file does. A Hold keeps the
// image from being removed while a trial needs it, and dies with its process.
//
// What the store believes is in <dir>/<key>.json; an image that the store does
// not know is never used, whatever its labels say.
package snapshots

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"harborgate/internal/atomicfile"
	"harborgate/providers"
)

// FormatVersion is part of every key: raise it when the same inputs would be
// built differently.
const FormatVersion = "1"

// lockPoll is how often the lock of another process's build is looked at; there
// is no way to be told.
const lockPoll = 200 * time.Millisecond

// Key names the content of an image.
type Key string

// KeyOf makes a key of everything that the image depends on: provider type,
// architecture, digest of the build context or the image reference, agent layer.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	for _, p := range append([]string{FormatVersion}, parts...) {
		fmt.Fprintf(h, "%d:%s,", len(p), p)
	}
	return Key(hex.EncodeToString(h.Sum(nil))[:40])
}

// Request is one question to Ensure.
type Request struct {
	Key Key
	// Try sets failures apart: a failed build is remembered and given to
	// everybody who asks with the same Try, and built again for the next one.
	Try int
	// Again builds although it failed a short time ago, for another process too.
	Again bool
	// From is what it is made from, got before anything is held that others need; nil is
	// nothing of the store.
	From *Request
	// Slot waits for the right to have a sandbox, which builds need one after the other;
	// nil is of one who has it. It is taken when there is something to build, before
	// others are kept from that.
	Slot func(ctx context.Context) (release func(), err error)
	// Snapshot says that the id is a provider's snapshot and not an image.
	Snapshot bool
	// Pulled says that Build makes nothing of the store's own: it stays with its owner.
	Pulled bool
	// Check reports the image of an id when it is still present.
	Check func(ctx context.Context, id string) (providers.Image, error)
	// Build makes the image; log gets its progress.
	Build func(ctx context.Context, log io.Writer) (providers.Image, error)
	// Limit bounds the build, from when it starts and not from when somebody
	// else's began; 0 is no bound.
	Limit time.Duration
	// Title is for humans, in the record and in the log ("task hello").
	Title string
}

// Needs reports whether a request is for a key, or for something that is made from it.
func (r *Request) Needs(key Key) bool { return r != nil && (r.Key == key || r.From.Needs(key)) }

// Hold is a right to use an image. Release it when the sandbox is gone.
type Hold struct {
	Image    providers.Image
	Snapshot bool // Image.ID is a snapshot's
	Cached   bool // it was there before this process asked

	release func()
}

// Release gives the right back. It may be called twice and on nil.
func (h *Hold) Release() {
	if h != nil && h.release != nil {
		h.release()
	}
}

// Store keeps the images of one provider. Safe for concurrent use.
type Store struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex // guards flights and holds
	flights map[flightKey]*flight
	holds   map[Key]*shared
	running sync.WaitGroup
}

type flightKey struct {
	key Key
	try int
}

// flight is a build under way or finished; it ends when nobody waits for it.
type flight struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int
	image   providers.Image
	cached  bool
	err     error
}

// shared is the in-use mark of a key, held by count holds of this process.
type shared struct {
	count int
	lock  *flock.Flock
}

// Open uses dir, made when missing, for records, locks and build logs.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	return &Store{dir: dir, log: log, flights: map[flightKey]*flight{}, holds: map[Key]*shared{}}, nil
}

// Close waits for builds that were cancelled.
func (s *Store) Close() { s.running.Wait() }

// Ensure returns when the image exists, or with the build's error. When ctx ends
// it returns at once; the build goes on while anybody else waits for it.
func (s *Store) Ensure(ctx context.Context, r Request) (*Hold, error) {
	mark, err := s.hold(ctx, r.Key) // before looking, so that nobody removes what we find
	if err != nil {
		return nil, err
	}
	f := s.join(ctx, r)
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	ended := s.leave(flightKey{r.Key, r.Try}, f)
	switch {
	case !ended:
		err = ctx.Err()
	case f.err != nil:
		err = f.err
	default:
		return &Hold{Image: f.image, Snapshot: r.Snapshot, Cached: f.cached, release: mark}, nil
	}
	mark()
	return nil, err
}

// join finds the flight of a request or starts it.
func (s *Store) join(ctx context.Context, r Request) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := flightKey{r.Key, r.Try}
	if f, ok := s.flights[k]; ok {
		f.waiting++
		return f
	}
	fctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{done: make(chan struct{}), cancel: cancel, waiting: 1}
	s.flights[k] = f
	s.running.Go(func() {
		defer cancel()
		f.image, f.cached, f.err = s.make(fctx, r)
		close(f.done)
	})
	return f
}

// leave forgets a flight that nobody else needs: a cancelled one, a good one
// whose record is on disk, and one that the provider failed and not the build. A
// build that failed by itself stays, for those who come later. It reports whether
// the flight had ended, looked at before it is cancelled: what a cancelled one ends
// with is no answer to who left.
func (s *Store) leave(k flightKey, f *flight) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-f.done:
		ended = true
	default:
	}
	f.waiting--
	switch {
	case f.waiting > 0:
	case !ended:
		f.cancel()
		delete(s.flights, k)
	case f.err == nil || errors.Is(f.err, context.Canceled) || passing(f.err):
		delete(s.flights, k)
	}
	return ended
}

// passing reports whether a build failed for a reason that may be gone next time.
func passing(err error) bool {
	if errors.As(err, new(syscall.Errno)) { // of this host's files, not of what is built
		return true
	}
	return refused(err)
}

// ProviderFailed reports whether there is no image because its provider did not answer,
// was asked too often, had no room or something of that name: the build did nothing
// wrong, and who asks again has it made again. What was built and died when it was
// started is the build's own.
func ProviderFailed(err error) bool {
	_, died := providers.DeathOf(err)
	return !died && refused(err)
}

func refused(err error) bool {
	switch providers.KindOf(err) {
	case providers.KindUnavailable, providers.KindRateLimited, providers.KindExhausted, providers.KindAlreadyExists:
		return true
	default:
		return false
	}
}

// make looks for the image and builds it, under the key's lock.
func (s *Store) make(ctx context.Context, r Request) (providers.Image, bool, error) {
	if img, ok := s.known(ctx, r); ok {
		return img, true, nil
	}
	if r.From != nil {
		from := *r.From
		from.Slot, from.Again = r.Slot, r.Again
		hold, err := s.Ensure(ctx, from)
		if err != nil {
			return providers.Image{}, false, err
		}
		defer hold.Release()
	}
	if r.Slot != nil {
		release, err := r.Slot(ctx)
		if err != nil {
			return providers.Image{}, false, fmt.Errorf("wait for room to build %s: %w", r.Title, err)
		}
		defer release()
	}
	lock := flock.New(s.path(r.Key, ".lock"))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return providers.Image{}, false, fmt.Errorf("wait for the build of %s by another harbor: %w", r.Title, err)
	}
	defer func() { _ = lock.Unlock() }() // the lock goes with the file descriptor
	if err := atomicfile.Clean(s.dir, string(r.Key)+".json", string(r.Key)+".failed"); err != nil {
		s.log.Warn("what a killed process was writing stays", "title", r.Title, "error", err)
	}
	if img, ok := s.known(ctx, r); ok {
		return img, true, nil
	}
	if err := s.failedBefore(r); err != nil {
		return providers.Image{}, false, err
	}
	if r.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Limit)
		defer cancel()
	}
	img, err := s.build(ctx, r)
	if err != nil {
		return providers.Image{}, false, s.failed(r, err)
	}
	return img, false, s.remember(r, img)
}

func (s *Store) build(ctx context.Context, r Request) (providers.Image, error) {
	s.log.Info("build started", "key", r.Key, "title", r.Title)
	start := time.Now()
	f, err := os.Create(s.path(r.Key, ".log"))
	if err != nil {
		return providers.Image{}, fmt.Errorf("build %s: %w", r.Title, err)
	}
	img, err := r.Build(ctx, f)
	if cerr := f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("build %s: write its log: %w", r.Title, cerr)
	}
	s.log.Info("build ended", "key", r.Key, "title", r.Title, "dur_ms", time.Since(start).Milliseconds(), "ok", err == nil, "log", f.Name())
	return img, err
}

// hold marks a key as in use, for every process of this host. It waits while
// another one removes the image.
func (s *Store) hold(ctx context.Context, key Key) (release func(), err error) {
	for {
		release, err = s.tryHold(key)
		if release != nil || err != nil {
			return release, err
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("mark snapshot %s as in use: it is being removed: %w", key, ctx.Err())
		}
	}
}

// tryHold returns nil when the image is being removed.
func (s *Store) tryHold(key Key) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holds[key]
	if h == nil {
		h = &shared{lock: flock.New(s.path(key, ".use"))}
		if ok, err := h.lock.TryRLock(); err != nil || !ok {
			if err != nil {
				err = fmt.Errorf("mark snapshot %s as in use: %w", key, err)
			}
			return nil, err
		}
		s.holds[key] = h
	}
	s.usedNow(key)
	h.count++
	return sync.OnceFunc(func() { s.drop(key) }), nil
}

func (s *Store) drop(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holds[key]
	if h.count--; h.count == 0 {
		s.usedNow(key)      // it may have been held for hours
		_ = h.lock.Unlock() // the lock goes with the file descriptor
		delete(s.holds, key)
	}
}

// LogPath is where the build log of a key is.
func (s *Store) LogPath(key Key) string { return s.path(key, ".log") }

func (s *Store) path(key Key, ext string) string { return filepath.Join(s.dir, string(key)+ext) }
