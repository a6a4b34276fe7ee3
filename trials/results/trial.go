// Package results keeps jobs and trials on disk, in Harbor's tree:
//
//	<jobs dir>/<job>/          config.json lock.json result.json job.log events.jsonl .lock
//	<jobs dir>/<job>/<trial>/  config.json lock.json result.json trial.log exception.txt
//	                           agent/ verifier/ artifacts/ tries/<n>/
//
// Documents are written atomically; logs and events grow. The disk is the truth:
// whatever else shows a job can be rebuilt from it. Nothing that comes out of a
// sandbox is followed or trusted: no links are made, sizes are bounded.
package results

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"harborgate/internal/atomicfile"
	"harborgate/internal/redact"
	"harborgate/trials"
)

// Names of files in a job's and a trial's directory.
const (
	ConfigFile    = "config.json"
	LockFile      = "lock.json"
	ResultFile    = "result.json"
	TrialLogFile  = "trial.log"
	JobLogFile    = "job.log"
	EventsFile    = "events.jsonl"
	ExceptionFile = "exception.txt"
	TriesDir      = "tries"
	RoomFile      = "room" // never seen: written to find out whether there is room
)

// Limits bound what a trial may leave on disk.
type Limits struct {
	LogBytes   int64 // of one streamed log
	FileBytes  int64 // of one file from a sandbox
	TotalBytes int64 // of all files from the sandbox of a trial
	Files      int   // how many of them
}

// DefaultLimits are generous: they are there for accidents and attacks.
func DefaultLimits() Limits {
	return Limits{LogBytes: 64 << 20, FileBytes: 2 << 30, TotalBytes: 8 << 30, Files: 250_000}
}

// Trial is one trial's directory. Its methods are for one goroutine, except that
// streams may be written by others.
type Trial struct {
	dir    string // absolute
	limits Limits
	root   *os.Root
	log    *os.File
	used   usage
	hidden *redact.Redactor // set before anything of the sandbox is stored
}

type usage struct {
	files int
	bytes int64
}

// NewTrial makes the directory of a trial, or takes the one that is there: what
// an earlier try left in it moves to tries/<n>/. try is the number of this one.
func NewTrial(dir string, try int, limits Limits) (*Trial, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make trial directory: %w", err)
	}
	if try > 1 {
		if _, err := Archive(dir); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &Trial{dir: dir, limits: limits, root: root}
	t.log, err = root.OpenFile(TrialLogFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return t, nil
}

// URI is the directory as file://….
func (t *Trial) URI() string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(t.dir)}).String()
}

// Path is the path of a name on this host.
func (t *Trial) Path(name string) string { return filepath.Join(t.dir, filepath.FromSlash(name)) }

// Begin makes the empty parts, lock.json and config.json.
func (t *Trial) Begin(cfg *trials.TrialConfig, lock *trials.TrialLock) error {
	for _, d := range []string{"agent", "verifier", "artifacts/logs/artifacts"} {
		if err := t.root.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := t.writeLock(lock); err != nil || cfg == nil {
		return err
	}
	return t.writeConfig(cfg)
}

func (t *Trial) writeLock(lock *trials.TrialLock) error {
	b, err := trials.MarshalLock(lock.Redacted(os.LookupEnv))
	if err != nil {
		return err
	}
	return t.Write(LockFile, b)
}

func (t *Trial) writeConfig(cfg *trials.TrialConfig) error {
	b, err := trials.MarshalIndent(cfg.Redacted(os.LookupEnv))
	if err != nil {
		return err
	}
	return t.Write(ConfigFile, b)
}

// Hide keeps values out of everything that is written from now on.
func (t *Trial) Hide(secrets ...string) { t.hidden = redact.New(secrets...) }

// Logger writes to trial.log and to base.
func (t *Trial) Logger(base *slog.Logger) *slog.Logger {
	own := slog.NewTextHandler(t.log, &slog.HandlerOptions{Level: slog.LevelDebug})
	return slog.New(slog.NewMultiHandler(own, base.Handler().WithAttrs([]slog.Attr{slog.String("trial", filepath.Base(t.dir))})))
}

// Stream opens a growing log.
func (t *Trial) Stream(name string) (io.WriteCloser, error) {
	f, err := t.root.Create(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	return t.hidden.Writer(newCapped(f, t.limits.LogBytes)), nil
}

// Read reads a regular file of at most limit bytes without following links.
func (t *Trial) Read(name string, limit int64) ([]byte, error) {
	f, size, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", name, size, limit)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// Ends returns the first and the last n bytes of a file.
func (t *Trial) Ends(name string, n int64) ([]byte, error) {
	f, size, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size <= 2*n {
		return io.ReadAll(io.LimitReader(f, 2*n))
	}
	out := make([]byte, 2*n)
	if _, err := io.ReadFull(f, out[:n]); err != nil {
		return nil, err
	}
	_, err = f.ReadAt(out[n:], size-n)
	return out, err
}

// open refuses what is no regular file, before it is opened: a FIFO would block.
func (t *Trial) open(name string) (*os.File, int64, error) {
	name = filepath.FromSlash(name)
	fi, err := t.root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file (%s)", name, fi.Mode().Type())
	}
	f, err := t.root.Open(name)
	return f, fi.Size(), err
}

// Write replaces a file atomically.
func (t *Trial) Write(name string, b []byte) error {
	if dir := path.Dir(name); dir != "." {
		if err := t.root.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return err
		}
	}
	return atomicfile.Write(t.Path(name), b, 0o644)
}

// Remove removes a file or a directory.
func (t *Trial) Remove(name string) error {
	err := t.root.RemoveAll(filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Finish takes hidden values out of all files and writes result.json.
func (t *Trial) Finish(r *trials.Result) error {
	if err := t.scrub(); err != nil {
		return fmt.Errorf("take secrets out of %s: %w", t.dir, err)
	}
	shown := *r
	shown.Config = r.Config.Redacted(os.LookupEnv)
	b, err := trials.MarshalIndent(shown)
	if err != nil {
		return err
	}
	return t.Write(ResultFile, t.hidden.Bytes(b))
}

func (t *Trial) scrub() error {
	if t.hidden == nil {
		return nil
	}
	return fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && name == TriesDir {
			return fs.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return t.hidden.File(t.root, filepath.FromSlash(name))
	})
}

// Close ends the log.
func (t *Trial) Close() error { return errors.Join(t.log.Close(), t.root.Close()) }
