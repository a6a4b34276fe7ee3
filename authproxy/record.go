package authproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"harborgate/authproxy/internal/wire"
)

// Record says what became of one request. It holds no header, no body, no query and
// nothing of a credential.
type Record struct {
	Time     time.Time   `json:"time"`
	ID       string      `json:"id"`
	Grant    string      `json:"grant,omitempty"` // its public part
	Job      string      `json:"job,omitempty"`
	Trial    string      `json:"trial,omitempty"`
	Phase    string      `json:"phase,omitempty"`
	Source   string      `json:"source,omitempty"`
	Upstream string      `json:"upstream,omitempty"`
	Route    string      `json:"route,omitempty"` // as in the table, not as it came
	Model    string      `json:"model,omitempty"`
	Answered string      `json:"answered_model,omitempty"` // where the upstream names another
	Key      string      `json:"key,omitempty"`            // its reference
	Status   int         `json:"status"`
	Refused  wire.Reason `json:"refused,omitempty"` // set when the proxy itself answered with an error
	Why      string      `json:"why,omitempty"`
	Repeated int         `json:"repeated,omitempty"` // requests before it, from the same source without a valid token, that have no record
	Budget   string      `json:"budget,omitempty"`   // which one is used up
	End      End         `json:"end"`
	Stream   bool        `json:"stream,omitempty"`
	Usage    wire.Usage  `json:"usage,omitzero"`
	Guessed  bool        `json:"guessed,omitempty"` // the usage is an estimate
	Cost     *NanoUSD    `json:"cost_usd"`          // null when there is no price
	Attempts int         `json:"attempts,omitempty"`
	BytesIn  int64       `json:"bytes_in"`
	BytesOut int64       `json:"bytes_out"`
	WaitedMS int64       `json:"waited_ms,omitempty"`
	FirstMS  int64       `json:"first_byte_ms,omitempty"`
	DurMS    int64       `json:"dur_ms"`

	waited time.Duration
	billed bool // a provider may ask money for it
	astray bool // it asks for something where nothing is served
}

// UpstreamFailed reports whether the upstream answered with an error, by its status or
// under one of success.
func (r *Record) UpstreamFailed() bool {
	return r.Refused == "" && (r.Status >= http.StatusBadRequest || r.End == Refused || r.End == Failed)
}

// fruitless reports whether the request came to nothing through its upstream.
func (r *Record) fruitless() bool {
	switch r.Refused {
	case wire.Down, wire.BadAnswer:
		return true
	case "":
		return r.Status >= http.StatusInternalServerError || r.End == Failed
	}
	return false
}

// unpaid reports whether the upstream's error is billed as nothing: under a status of
// success, it may be said what was used until then.
func (r *Record) unpaid() bool {
	return r.Status >= http.StatusBadRequest || r.UpstreamFailed() && r.Usage == (Usage{})
}

// End is how a request ended.
type End string

// The ends.
const (
	Complete   End = "complete"
	Refused    End = "refused"     // by the proxy, or by the upstream with a status of error, or an error about what was asked
	Failed     End = "failed"      // the answer is an error of the upstream's, or ends with one, under a status of success
	ClientGone End = "client_gone" // before the answer was complete
	Revoked    End = "revoked"     // cut, because the grant had ended
	Stopped    End = "stopped"     // cut, because the proxy waited no longer
	Cut        End = "cut"         // by the upstream, in the middle
	Truncated  End = "truncated"   // a clean end without the format's own
	Idle       End = "idle"        // cut, because nothing came any more
	Broken     End = "error"       // a bug of ours
)

// Audit takes one record of each request, whatever became of it. It is called from
// many goroutines, after the answer. A record names its job and trial, so an Audit
// that wants a copy for each trial only has to look there.
type Audit interface {
	Record(Record) error
}

// Metrics counts what happens. It is called from many goroutines and must not
// wait. What is held at the moment is in Proxy.Status.
type Metrics interface {
	Served(Record)
	Waiting(upstream string, change int) // +1 when a request begins to wait for a limit, -1 when it ends
	Streams(upstream string, change int)
}

// AuditLog is an Audit, and a Transcripts, that writes lines of JSON to a file, and sets it aside when
// it has grown. It is safe for concurrent use.
type AuditLog struct {
	mu   sync.Mutex
	path string
	max  int64
	keep int
	file *os.File
	size int64
}

// auditMode is that of all that is written here.
const auditMode = 0o600

// OpenAuditLog opens the log at path. At max bytes it becomes path.1, and what was
// path.1 becomes path.2, up to keep.
func OpenAuditLog(path string, maxBytes int64, keep int) (*AuditLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	l := &AuditLog{path: path, max: maxBytes, keep: keep}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *AuditLog) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, auditMode)
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("open audit log: %w", err)
	}
	l.file, l.size = f, fi.Size()
	return nil
}

// Record writes one line.
func (l *AuditLog) Record(r Record) error { return l.write(r) }

func (l *AuditLog) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(line)) > l.max {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(append(line, '\n'))
	l.size += int64(n)
	if err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	return nil
}

func (l *AuditLog) rotate() error {
	for i := l.keep - 1; i >= 1; i-- {
		_ = os.Rename(fmt.Sprintf("%s.%d", l.path, i), fmt.Sprintf("%s.%d", l.path, i+1)) // there may be none yet
	}
	err := os.Rename(l.path, l.path+".1")
	if l.keep < 1 {
		err = os.Remove(l.path)
	}
	if err != nil {
		return fmt.Errorf("set audit log aside: %w", err)
	}
	_ = l.file.Close()
	return l.open()
}

// Close ends the log.
func (l *AuditLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
