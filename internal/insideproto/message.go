package insideproto

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Op is what a stream is for.
type Op string

// Operations.
const (
	OpExec   Op = "exec"
	OpPut    Op = "put"
	OpGet    Op = "get"
	OpExpose Op = "expose"
	OpRelay  Op = "relay"
)

// Header opens every stream. Byte slices stand where names need not be UTF-8.
type Header struct {
	Op Op `json:"op"`
	// ID names a command or an exposed port: random, chosen by the host, the same
	// when a broken session is dialled again.
	ID   string   `json:"id,omitempty"`
	Path []byte   `json:"path,omitempty"` // put and get
	Exec *Command `json:"exec,omitempty"`
}

// Command is the request of an exec stream.
type Command struct {
	Args [][]byte `json:"args"`
	Dir  []byte   `json:"dir,omitempty"`
	User string   `json:"user,omitempty"`
	// Env holds NAME=value entries on top of the companion's own environment;
	// later ones win.
	Env           [][]byte `json:"env,omitempty"`
	Stdin         bool     `json:"stdin,omitempty"`    // else the input is at its end
	Combined      bool     `json:"combined,omitempty"` // one pipe, FrameStdout
	TTY           *Size    `json:"tty,omitempty"`
	KillLeftovers bool     `json:"killLeftovers,omitempty"`

	// Received is how much output the host has, when it comes back to a command.
	Received int64 `json:"received,omitempty"`
	// AttachOnly asks to be refused (NotFound) rather than to start the command.
	AttachOnly bool `json:"attachOnly,omitempty"`
}

// Size is that of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Accepted says that a request was understood and where streams go on.
type Accepted struct {
	Output int64 `json:"output,omitempty"` // exec: offset of the first output byte to come
	Stdin  int64 `json:"stdin,omitempty"`  // exec: how much input has arrived
	Port   int   `json:"port,omitempty"`   // expose
}

// Exit is how a command ended.
type Exit struct {
	Code      int  `json:"code"`
	Signal    int  `json:"signal,omitempty"`
	OOMKilled bool `json:"oomKilled,omitempty"`
	// Leftovers is how many processes were killed after the command's own ended, or
	// in place of a supervisor that did not do it. The last resort against them, which
	// kills everything in the sandbox, counts everything.
	Leftovers int `json:"leftovers,omitempty"`
	// Gone: no process of the command is left. Without it some live on.
	Gone bool `json:"gone,omitempty"`
}

// Check finds what no command can end with.
func (e Exit) Check() error {
	if e.Code < 0 || e.Code > 255 || e.Signal < 0 || e.Signal > 64 || e.Leftovers < 0 {
		return fmt.Errorf("%w: impossible exit record", ErrFrame)
	}
	return nil
}

// Kill asks for the end of a command and all its descendants.
type Kill struct {
	GraceMillis int64 `json:"grace,omitempty"` // between SIGTERM and SIGKILL; 0 is SIGKILL at once
}

// Supervised is what a supervisor runs.
type Supervised struct {
	Command
	// Environ is the environment below Command.Env.
	Environ [][]byte `json:"environ,omitempty"`
}

// Refusal is why a request could not be done. Kind is one of the names of the
// host's error kinds ("Invalid", "NotFound", …).
type Refusal struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Kinds of refusals, by the host's names.
const (
	Invalid     = "Invalid"
	NotFound    = "NotFound"
	Denied      = "Denied"
	Exhausted   = "Exhausted"
	Unavailable = "Unavailable"
	Unsupported = "Unsupported"
	Internal    = "Internal"
)

// Refuse makes a Refusal; its text is cut to what a record holds.
func Refuse(kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Message: Printable(fmt.Sprintf(format, args...), 2<<10)}
}

func (r *Refusal) Error() string { return r.Message }

// Printable makes text of the other side safe for a log line: valid UTF-8
// without control characters, at most limit bytes.
func Printable(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
}

// WriteRecord writes v as JSON in a frame of type t.
func WriteRecord(w io.Writer, t FrameType, v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	return WriteFrame(w, t, p)
}

// ParseRecord reads the payload of a frame that WriteRecord wrote.
func ParseRecord(p []byte, v any) error {
	if err := json.Unmarshal(p, v); err != nil {
		return fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return nil
}

// WriteHeader starts a stream.
func WriteHeader(w io.Writer, h Header) error {
	p, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	if len(p) > MaxHeader {
		return fmt.Errorf("header of %d bytes, at most %d pass", len(p), MaxHeader)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...))
	return err
}

// ReadHeader reads what WriteHeader wrote, at most limit bytes of it.
func ReadHeader(r io.Reader, limit int) (Header, error) {
	p, err := readSized(r, limit)
	if err != nil {
		return Header{}, err
	}
	var h Header
	if err := ParseRecord(p, &h); err != nil {
		return Header{}, err
	}
	return h, nil
}

// readSized reads four bytes of length and that many bytes.
func readSized(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if err := readHead(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes where at most %d are allowed", ErrFrame, n, limit)
	}
	f := FrameReader{r: r}
	return f.payload(int(n))
}
