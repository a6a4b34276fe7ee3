package authproxy

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"harborgate/authproxy/internal/gate"
)

// key is one credential of an upstream with its health.
type key struct {
	ref    KeyRef
	secret Secret
	gate   *gate.Gate

	mu      sync.Mutex
	until   time.Time // resting before it
	refused bool      // rests because the provider refused it
	status  int       // with which it did
	spent   bool      // it did because quota or credit is used up
	served  int64
}

// rests reports until when the key rests, and whether it was refused.
func (k *key) rests(now time.Time) (until time.Time, refused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.until.After(now) {
		return time.Time{}, false
	}
	return k.until, k.refused
}

// rest lets nobody use the key before t. An earlier t than that of a rest changes
// nothing.
func (k *key) rest(t time.Time, refused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.After(k.until) {
		k.until, k.refused = t, refused
	}
}

// refuse lets nobody use the key before t, because the provider refused it.
func (k *key) refuse(t time.Time, status int, spent bool) {
	k.rest(t, true)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status, k.spent = status, spent
}

// worked counts an answer, behind which a refusal holds no more.
func (k *key) worked() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served++
	k.forgive()
}

// wake lets a key that was refused be tried again.
func (k *key) wake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgive()
}

func (k *key) forgive() {
	if k.refused {
		k.until, k.refused = time.Time{}, false
	}
}

// KeyHealth is the state of one key, without it.
type KeyHealth struct {
	Ref     string     `json:"ref"`
	Served  int64      `json:"served"`
	Resting time.Time  `json:"resting,omitzero"`
	Refused bool       `json:"refused,omitempty"`
	Status  int        `json:"status,omitempty"` // with which the provider refused it
	Spent   bool       `json:"spent,omitempty"`  // it did because quota or credit is used up
	Gate    gate.State `json:"gate"`
}

func (k *key) health(now time.Time) KeyHealth {
	until, refused := k.rests(now)
	k.mu.Lock()
	served, status, spent := k.served, k.status, k.spent
	k.mu.Unlock()
	h := KeyHealth{Ref: k.ref.String(), Served: served, Resting: until, Refused: refused, Gate: k.gate.State()}
	if refused {
		h.Status, h.Spent = status, spent
	}
	return h
}

// pool are the keys of one upstream.
type pool struct {
	keys []*key
	seed maphash.Seed
}

// pick returns the key for a trial: always the same while it is well, because
// providers keep their caches of prompts by account, and otherwise the next best.
// Trials spread evenly over keys. When none is well, next is when the first of them
// will be, and zero when the provider has refused them all.
func (p *pool) pick(trial string, now time.Time) (best *key, next time.Time) {
	var most uint64
	for _, k := range p.keys {
		until, refused := k.rests(now)
		switch {
		case until.IsZero():
			if weight := maphash.String(p.seed, trial+"\x00"+string(k.ref)); best == nil || weight > most {
				best, most = k, weight
			}
		case !refused && (next.IsZero() || until.Before(next)):
			next = until
		}
	}
	return best, next
}

// untried returns a key that is not in tried, whether it is well or rests: first those
// that were refused, which may have become good again. It is nil when all are.
func (p *pool) untried(tried []*key, now time.Time) *key {
	var best *key
	rank := func(k *key) int {
		switch until, refused := k.rests(now); {
		case refused:
			return 2
		case until.IsZero():
			return 1
		}
		return 0
	}
	for _, k := range p.keys {
		if !slices.Contains(tried, k) && (best == nil || rank(k) > rank(best)) {
			best = k
		}
	}
	return best
}

// spent reports whether the provider refuses all keys that it refuses because their
// quota or credit is used up.
func (p *pool) spent(now time.Time) bool {
	return !slices.ContainsFunc(p.keys, func(k *key) bool {
		h := k.health(now)
		return h.Refused && !h.Spent
	})
}
