package runner

import (
	"context"
	"io"
	"log/slog"
	"net"
	"time"

	"harborgate/agents"
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

// Credentials decides which values of an environment may enter a sandbox, and
// gives phases their way to models.
type Credentials interface {
	// Guard returns env without model credentials. In the place of those that
	// replaced names, by upstream, the phase gets a grant's token. notes say what
	// was replaced, withheld or passed. phase is that of the commands which get env;
	// agent is whose own environment it is, nil for any other.
	Guard(phase trials.Phase, agent *trials.AgentConfig, env map[string]string) (guarded, replaced map[string]string, notes []trials.Note)
	// Grant opens a way to models for a phase that is about to begin; nil when it
	// needs none. An error means that it needs one that cannot be had.
	Grant(ctx context.Context, w Want) (*Grant, error)
}

// Want is what a phase wants of models.
type Want struct {
	Trial    string
	Try      int
	Phase    trials.Phase
	Agent    *trials.AgentConfig // that works with models in this phase; nil is none
	Replaced map[string]string   // upstreams by variables whose credential they stand for
	Until    time.Time           // the phase's end at the latest
}

// Grant is a phase's way to models.
type Grant struct {
	// Handle answers a connection out of the sandbox.
	Handle func(net.Conn)
	// Access is what the sandbox needs to know when url leads to Handle.
	Access func(url string) agents.Access
	// End takes the grant back, with all that is open, and says what came of it.
	// failure is not nil when models were out of reach in the end, or a budget used
	// up. Call it once.
	End func() (metered trials.Metered, failure *trials.Failure)
}
