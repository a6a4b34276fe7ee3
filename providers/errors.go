package providers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is what an error means to whoever decides what happens next.
type Kind uint8

// The closed list of kinds.
const (
	KindInternal      Kind = iota // a bug of ours, or an answer nobody understands
	KindInvalid                   // the request is wrong and will be wrong again
	KindNotFound                  // the named thing is not there
	KindAlreadyExists             // the name is taken
	KindDenied                    // credentials or permissions
	KindRateLimited               // too fast; RetryAfter says when, if known
	KindExhausted                 // quota or capacity: try elsewhere or later
	KindUnavailable               // transient: the backend or the sandbox is gone
	KindUnsupported               // this provider cannot do that
	KindTimeout                   // a deadline of ours passed
)

var kindNames = [...]string{
	"Internal", "Invalid", "NotFound", "AlreadyExists", "Denied",
	"RateLimited", "Exhausted", "Unavailable", "Unsupported", "Timeout",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Internal"
}

// Kinds lists all kinds, for tables that must be complete.
func Kinds() []Kind {
	out := make([]Kind, len(kindNames))
	for i := range out {
		out[i] = Kind(i)
	}
	return out
}

// Error is the one error type of this package and its drivers.
type Error struct {
	Provider   string // configured name; decorators fill it in
	Op         string // "create", "exec", …
	ID         string // of the sandbox or image, when there is one
	Kind       Kind
	RetryAfter time.Duration // with KindRateLimited, 0 is unknown
	Death      *Death        // set when the sandbox is known to have died
	Err        error
}

// E makes an error of a kind. It returns nil for a nil err.
func E(kind Kind, op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Kind: kind, Op: op, Err: err}
}

// Errorf makes an error of a kind with a formatted message.
func Errorf(kind Kind, op, format string, args ...any) error {
	return &Error{Kind: kind, Op: op, Err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string {
	var b strings.Builder
	for _, s := range []string{e.Provider, e.Op, e.ID} {
		if s != "" {
			b.WriteString(s)
			b.WriteByte(' ')
		}
	}
	if b.Len() > 0 {
		s := strings.TrimSuffix(b.String(), " ")
		b.Reset()
		b.WriteString(s + ": ")
	}
	switch {
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	case e.Death != nil:
		b.WriteString(e.Death.String())
	default:
		b.WriteString(e.Kind.String())
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %s)", e.RetryAfter)
	}
	return b.String()
}

// Bare is what err says without the name of its provider at the beginning, for lines that
// name it already.
func Bare(err error, provider string) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, provider+": "); ok {
		return rest
	}
	return strings.TrimPrefix(text, provider+" ")
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err: that of the outermost *Error in its chain,
// KindTimeout for a passed deadline, KindInternal for everything unknown.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	default:
		return KindInternal
	}
}

// Is reports whether err is of kind k. It is false for nil.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// DeathOf returns how the sandbox died, if err knows.
func DeathOf(err error) (Death, bool) {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			break
		}
		if e.Death != nil {
			return *e.Death, true
		}
		err = e.Err
	}
	return Death{}, false
}
