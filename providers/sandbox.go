package providers

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// A Sandbox is one running environment. All methods may be called concurrently.
// After Destroy, or when the sandbox died, they return KindNotFound or
// KindUnavailable; an error that knows how the sandbox died carries a Death.
type Sandbox interface {
	ID() ID

	// Exec runs a command and waits for it. A status other than zero is no
	// error; an error means that the outcome is not known. When ctx ends, the
	// whole process tree of the command is killed, double-forked and setsid
	// children too, and is verified to be dead before Exec returns ctx's error
	// with the output so far delivered. Nothing else in the sandbox is touched.
	Exec(ctx context.Context, cmd Command) (ExitStatus, error)

	// Upload unpacks a tar stream into the directory dest, made with its parents
	// when missing: the entries appear in dest, whether or not it existed, and a
	// link to a directory is followed. A dest that is a file is KindInvalid.
	// Modes are kept, owners are root. Entries that would land outside dest are
	// KindInvalid and nothing of theirs is written.
	Upload(ctx context.Context, tar io.Reader, dest string) error

	// Download packs path into a tar stream: a directory's contents (names
	// relative to it, no entry for itself), or one file under its base name.
	// Links, devices and FIFOs are entries of their type, never followed, never
	// opened. A missing path is KindNotFound, from Download or from the first
	// Read. The stream ends with an error if anything was cut off. Close it.
	Download(ctx context.Context, path string) (io.ReadCloser, error)

	// Expose opens a port on the sandbox's own loopback, with or without a
	// network. Each connection to it arrives at handle in its own goroutine,
	// which owns and closes it. url is "http://127.0.0.1:PORT" as seen from
	// inside. closer ends the port and its connections; so does Destroy.
	Expose(ctx context.Context, handle func(net.Conn)) (url string, closer func() error, err error)

	// Destroy removes the sandbox and all that belongs to it, running commands
	// included, without a stop grace. Idempotent.
	Destroy(ctx context.Context) error
}

// Command is one execution inside a sandbox.
type Command struct {
	// Args is the program and its arguments, no shell. A program without a slash
	// is looked up in the command's PATH.
	Args []string
	Dir  string // "" is the sandbox's
	User string // name, uid, name:group or uid:gid; "" is the sandbox's; "root" is always known

	// Env is added to the sandbox's environment. Both kinds travel on the
	// session, never on a command line and never in what the provider can show;
	// SecretEnv is also kept out of every log and error.
	Env       map[string]string
	SecretEnv map[string]string

	// Stdin is read to its end; nil is an input at its end. Exec does not wait
	// for a Stdin that blocks once the command has exited.
	Stdin io.Reader

	// Stdout and Stderr get the raw bytes, written by one goroutine; nil drops
	// them. When both are the same writer, the command has one pipe for both and
	// the order is exactly that of its writes; otherwise the order between the
	// two is the order of arrival. A slow writer slows the command down and
	// loses nothing.
	Stdout io.Writer
	Stderr io.Writer

	// TTY, when set, gives the command a terminal of this size; output is Stdout.
	TTY *TTY

	// Grace is how long a cancelled command has between SIGTERM and SIGKILL.
	Grace time.Duration

	// KillLeftovers kills what the command left running when its own process
	// exits by itself. Without it such processes live on.
	KillLeftovers bool
}

// TTY is a terminal size in characters.
type TTY struct{ Rows, Cols uint16 }

// ExitStatus is how a command ended.
type ExitStatus struct {
	Code   int // 128+signal when killed by a signal
	Signal int // 0 when it exited by itself
	// OOMKilled is set when the kernel killed a process of the sandbox for
	// memory while the command ran, whatever the command's own status.
	OOMKilled bool
	// Leftovers is how many processes of the command were killed after it ended:
	// by KillLeftovers, or because it did away with its own supervision.
	Leftovers int
	// DroppedBytes of output were lost because the session was broken for long.
	DroppedBytes int64
}

// OK reports a normal exit with code 0.
func (s ExitStatus) OK() bool { return s.Code == 0 && s.Signal == 0 }

func (s ExitStatus) String() string {
	switch {
	case s.Signal != 0:
		return fmt.Sprintf("killed by signal %d", s.Signal)
	default:
		return fmt.Sprintf("exit code %d", s.Code)
	}
}

// Death is how a sandbox's first process ended when nobody asked for it.
type Death struct {
	ExitCode  int
	OOMKilled bool
	Lost      bool   // the provider's doing: nothing in the sandbox ended it
	Output    string // tail of the first process's output
}

func (d Death) String() string {
	switch {
	case d.OOMKilled:
		return "the sandbox was killed because it ran out of memory"
	case d.Lost:
		return "the provider lost the sandbox"
	case d.Output != "":
		return fmt.Sprintf("the sandbox's first process exited with code %d: %s", d.ExitCode, d.Output)
	default:
		return fmt.Sprintf("the sandbox's first process exited with code %d", d.ExitCode)
	}
}
