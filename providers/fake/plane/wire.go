package plane

import (
	"net/http"
	"time"

	"harborgate/providers"
)

// answer is the body of every answer that is no error.
type answer struct {
	ID        providers.ID  `json:"id,omitempty"`
	Wait      time.Duration `json:"wait_ns"`
	Sandboxes []Sandbox     `json:"sandboxes,omitempty"`
}

// refusal is the body of an error.
type refusal struct {
	Kind       string           `json:"kind"`
	Op         string           `json:"op"`
	ID         string           `json:"id,omitempty"`
	Message    string           `json:"message"`
	RetryAfter time.Duration    `json:"retry_after_ns,omitempty"`
	Death      *providers.Death `json:"death,omitempty"`
}

func (r refusal) err() error {
	out := &providers.Error{Op: r.Op, ID: r.ID, RetryAfter: r.RetryAfter, Death: r.Death, Err: said(r.Message)}
	for _, k := range providers.Kinds() {
		if k.String() == r.Kind {
			out.Kind = k
		}
	}
	return out
}

// said is what a control plane said.
type said string

func (s said) Error() string { return string(s) }

// status is how an error of a kind is answered.
func status(k providers.Kind) int {
	switch k {
	case providers.KindInvalid, providers.KindExhausted: // a quota is a bad request at Daytona
		return http.StatusBadRequest
	case providers.KindAlreadyExists:
		return http.StatusConflict
	case providers.KindRateLimited:
		return http.StatusTooManyRequests
	case providers.KindUnavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
