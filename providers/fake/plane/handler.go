package plane

import (
	"encoding/json"
	"errors"
	"net/http"

	"harborgate/providers"
)

// Handler serves a control plane to other processes:
//
//	POST   /sandboxes            create: name, labels, size
//	DELETE /sandboxes/{id}
//	POST   /sandboxes/{id}/exec  admits something inside
//	POST   /list                 labels, name_prefix
//	POST   /check
//	GET    /counters
//	POST   /faults               adds one Fault
//	DELETE /faults               heals
//
// A refusal has a status like that of a cloud, and says its kind. A client that goes
// away changes nothing: what was admitted stays until it is deleted.
func Handler(p *Plane) http.Handler {
	h := handler{p}
	mux := http.NewServeMux()
	for pattern, f := range map[string]func(*http.Request) (any, error){
		"POST /sandboxes": h.create, "DELETE /sandboxes/{id}": h.delete, "POST /sandboxes/{id}/exec": h.exec,
		"POST /list": h.list, "POST /check": h.check,
		"GET /counters": h.counters, "POST /faults": h.inject, "DELETE /faults": h.heal,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { respond(w, r, f) })
	}
	return mux
}

func respond(w http.ResponseWriter, r *http.Request, f func(*http.Request) (any, error)) {
	body, err := f(r)
	code := http.StatusOK
	if err != nil {
		kind := providers.KindOf(err)
		said := refusal{Kind: kind.String(), Message: err.Error()}
		var e *providers.Error
		if errors.As(err, &e) { // always, with a reason
			said.Op, said.ID, said.RetryAfter, said.Death = e.Op, e.ID, e.RetryAfter, e.Death
			said.Message = e.Err.Error()
		}
		code, body = status(kind), said
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client went away
}

type handler struct{ p *Plane }

// largestBody is that of a request.
const largestBody = 1 << 20

func (h handler) read(r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, largestBody))
	d.DisallowUnknownFields()
	return providers.E(providers.KindInvalid, "request", d.Decode(into))
}

func (h handler) create(r *http.Request) (any, error) {
	var s Sandbox
	if err := h.read(r, &s); err != nil {
		return nil, err
	}
	id, wait, err := h.p.Create(r.Context(), s)
	return answer{ID: id, Wait: wait}, err
}

func (h handler) delete(r *http.Request) (any, error) {
	wait, err := h.p.Delete(r.Context(), providers.ID(r.PathValue("id")))
	return answer{Wait: wait}, err
}

func (h handler) exec(r *http.Request) (any, error) {
	wait, err := h.p.Exec(r.Context(), providers.ID(r.PathValue("id")))
	return answer{Wait: wait}, err
}

func (h handler) list(r *http.Request) (any, error) {
	var sel providers.Selector
	if err := h.read(r, &sel); err != nil {
		return nil, err
	}
	found, wait, err := h.p.List(r.Context(), sel)
	return answer{Sandboxes: found, Wait: wait}, err
}

func (h handler) check(r *http.Request) (any, error) {
	wait, err := h.p.Check(r.Context())
	return answer{Wait: wait}, err
}

func (h handler) counters(r *http.Request) (any, error) { return h.p.Counters(r.Context()) }

func (h handler) inject(r *http.Request) (any, error) {
	var f Fault
	if err := h.read(r, &f); err != nil {
		return nil, err
	}
	return answer{}, h.p.Inject(r.Context(), f)
}

func (h handler) heal(r *http.Request) (any, error) { return answer{}, h.p.Heal(r.Context()) }
