package runner

import (
	"io"
	"log/slog"

	"harborgate/trials"
)

// Sink is the trial's directory. Names are relative, with slashes. Nothing that
// comes out of a sandbox is followed: links are neither made nor read.
type Sink interface {
	Record
	Files
}

// Record is what a trial's directory says about the trial.
type Record interface {
	// Begin makes the directory with its empty parts, lock.json and, unless cfg
	// is nil, config.json.
	Begin(cfg *trials.TrialConfig, lock *trials.TrialLock) error
	// Logger adds trial.log to a logger.
	Logger(base *slog.Logger) *slog.Logger
	// Hide keeps values out of everything that the sink writes from now on, plain
	// and encoded.
	Hide(secrets ...string)
	// URI is the directory as a file:// URI.
	URI() string
	// Finish writes result.json, durably. Close ends trial.log.
	Finish(*trials.Result) error
	Close() error
}

// Files are the other files of a trial's directory.
type Files interface {
	// Path is a path of this host.
	Path(name string) string
	// Stream opens a file that is written while it grows, cut at the log limit
	// with a marker; kept are its head and its tail.
	Stream(name string) (io.WriteCloser, error)
	// Unpack stores a tar stream from a sandbox below a directory, or a single
	// file under a name.
	Unpack(tar io.Reader, o trials.Unpack) (trials.Unpacked, error)
	// Read reads a regular file of at most max bytes: fs.ErrNotExist, or an
	// error that says what is wrong with it.
	Read(name string, max int64) ([]byte, error)
	// Ends returns the first and the last n bytes of a regular file, all of it
	// when it is no longer than both.
	Ends(name string, n int64) ([]byte, error)
	Write(name string, b []byte) error
}

// Events takes what happened. Emit does not block for long.
type Events interface {
	Emit(trials.Event)
}

// Credentials decides which values of an environment may enter a sandbox.
type Credentials interface {
	// Guard returns env with every model credential replaced or withheld; notes
	// say which. phase is that of the commands which get it.
	Guard(phase trials.Phase, env map[string]string) (guarded map[string]string, notes []trials.Note)
}
