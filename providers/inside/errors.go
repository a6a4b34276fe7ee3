package inside

import (
	"errors"
	"fmt"

	"harborgate/internal/insideproto"
	"harborgate/providers"
)

// errBroken is the end of a link, or what follows from it: worth another dial.
var errBroken = errors.New("the connection into the sandbox broke")

// errUnreachable is a link that could not be made for so long that nobody waits
// for it any more.
var errUnreachable = fmt.Errorf("%w", errBroken)

// errLost means that the companion was started anew, so what it ran is gone.
var errLost = errors.New("harbor-inside was killed inside the sandbox, and its commands with it")

// kindOf is the one place that translates errors of this package.
func kindOf(err error) providers.Kind {
	var refusal *insideproto.Refusal
	var e *providers.Error
	switch {
	case errors.As(err, &refusal):
		return refusalKind(refusal.Kind)
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, errBroken), errors.Is(err, errLost), errors.Is(err, insideproto.ErrTruncated):
		return providers.KindUnavailable
	default:
		return providers.KindOf(err)
	}
}

// refusalKind accepts the kinds that a companion may claim. It knows nothing of
// credentials, quotas or the host.
func refusalKind(name string) providers.Kind {
	kinds := map[string]providers.Kind{
		insideproto.Invalid:     providers.KindInvalid,
		insideproto.NotFound:    providers.KindNotFound,
		insideproto.Denied:      providers.KindDenied,
		insideproto.Exhausted:   providers.KindExhausted,
		insideproto.Unavailable: providers.KindUnavailable,
		insideproto.Unsupported: providers.KindUnsupported,
	}
	return kinds[name] // KindInternal is the zero value
}

// final reports whether dialling again cannot help.
func final(err error) bool {
	if _, dead := providers.DeathOf(err); dead {
		return true
	}
	switch providers.KindOf(err) {
	case providers.KindNotFound, providers.KindDenied, providers.KindInvalid, providers.KindUnsupported:
		return true
	default:
		return false
	}
}
