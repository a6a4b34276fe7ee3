// Package plane is the control plane of a simulated provider: it admits creates and
// calls within limits like those of real clouds, says no as they do, takes as long,
// fails on request, and counts all of it. It knows names, labels and sizes of
// sandboxes and nothing of what is in them.
//
// The accounting needs no goroutine and never waits: a call is decided at once,
// and its answer says how long the provider would have taken. Whoever asked waits.
// Time may be scaled, so that a minute of the simulation is a second of the host's;
// what goes in and comes out of methods is the host's time.
//
// A Plane in this process and a Client of one in another process are used alike.
package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"harborgate/providers"
)

// Op is a class of calls that has a rate, a latency and faults of its own.
type Op string

// Classes of calls. Exec is what happens inside a sandbox.
const (
	OpCreate Op = "create"
	OpDelete Op = "delete"
	OpRead   Op = "read"
	OpExec   Op = "exec"
)

var ops = []Op{OpCreate, OpDelete, OpRead, OpExec}

// Sandbox is what the control plane knows of one.
type Sandbox struct {
	ID      providers.ID      `json:"id"`
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels"`
	Size    Size              `json:"size"`
	Created time.Time         `json:"created"`
}

// Plane is a control plane. All methods may be called concurrently. Its errors are
// *providers.Error; those of a call that was not admitted changed nothing.
type Plane struct {
	c       Config
	now     func() time.Time
	start   time.Time
	limits  amounts
	largest amounts

	mu     sync.Mutex // guards what follows
	boxes  map[providers.ID]*Sandbox
	names  map[string]providers.ID
	going  []departure // the next one first
	used   amounts
	peak   amounts
	gates  map[Op]*gate
	faults []*armed
	random *rand.Rand
	made   meter
	calls  map[Op]*Calls
	gone   int64
	lost   int64
	lastID int64
}

// departure is a sandbox whose removal was asked for.
type departure struct {
	at time.Duration
	id providers.ID
}

// New makes a control plane without sandboxes. now is its clock; nil is the host's.
func New(c Config, now func() time.Time) (*Plane, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	p := &Plane{
		c: c, now: now, start: now(), limits: c.Limits.amounts(), largest: c.Largest.amounts(),
		boxes: map[providers.ID]*Sandbox{}, names: map[string]providers.ID{}, gates: map[Op]*gate{}, calls: map[Op]*Calls{},
		random: rand.New(rand.NewPCG(c.Seed, 0)),
	}
	for op, r := range c.Rates {
		p.gates[op] = newGate(r)
	}
	for _, op := range ops {
		p.calls[op] = &Calls{Refused: map[Reason]int64{}}
	}
	return p, p.arm(c.Faults)
}

// elapsed is the simulation's time.
func (p *Plane) elapsed() time.Duration {
	return time.Duration(float64(p.now().Sub(p.start)) * p.c.TimeScale)
}

// hosts turns the simulation's time into the host's.
func (p *Plane) hosts(d time.Duration) time.Duration {
	return time.Duration(float64(d) / p.c.TimeScale)
}

// begin starts a call: what is due has happened, and the call is counted.
// p.mu is held.
func (p *Plane) begin(op Op) time.Duration {
	now := p.elapsed()
	p.depart(now)
	p.calls[op].Asked++
	return now
}

// admit holds a call against faults and the rate of its class. p.mu is held.
func (p *Plane) admit(op Op, now time.Duration) (strike, error) {
	s := p.strike(op, now)
	if s.err != nil {
		return s, p.refuse(op, s.reason, s.err)
	}
	if g := p.gates[op]; g != nil {
		if ok, after := g.pass(now); !ok {
			err := &providers.Error{Op: string(op), Kind: providers.KindRateLimited, RetryAfter: p.hosts(after), Err: fmt.Errorf("too many requests of class %s", op)}
			return s, p.refuse(op, ReasonRate, err)
		}
	}
	return s, nil
}

func (p *Plane) refuse(op Op, r Reason, err error) error {
	p.calls[op].Refused[r]++
	return err
}

// Create admits a sandbox: from here on it is there and counts. It can be used
// after wait.
func (p *Plane) Create(_ context.Context, s Sandbox) (id providers.ID, wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.begin(OpCreate)
	struck, err := p.admit(OpCreate, now)
	if err != nil {
		return "", 0, err
	}
	size := s.Size.or(p.c.Sandbox).amounts()
	size[0] = 1
	if reason, err := p.room(s.Name, size); err != nil {
		return "", 0, p.refuse(OpCreate, reason, err)
	}
	p.lastID++
	s.ID, s.Size, s.Created = providers.ID("sim-"+strconv.FormatInt(p.lastID, 10)), size.size(), p.now()
	p.boxes[s.ID], p.names[s.Name] = &s, s.ID
	p.used = p.used.plus(size)
	p.peak = p.peak.most(p.used)
	p.calls[OpCreate].Done++
	p.made.add(now)
	if struck.lose {
		p.lose(s.ID)
	}
	return s.ID, p.wait(OpCreate, struck), nil
}

// room says why a sandbox cannot be, if it cannot.
func (p *Plane) room(name string, size amounts) (Reason, error) {
	if id, taken := p.names[name]; taken {
		return ReasonTaken, providers.Errorf(providers.KindAlreadyExists, "create", "the name %s is taken by %s", name, id)
	}
	if i := size.above(p.largest); i >= 0 {
		return ReasonTooLarge, providers.Errorf(providers.KindInvalid, "create", "%s request %v exceeds maximum allowed per sandbox (%v)", kinds[i], size.of(i), p.largest.of(i))
	}
	if i := p.used.plus(size).above(p.limits); i >= 0 {
		return Reason(kinds[i]), providers.Errorf(providers.KindExhausted, "create", "total %s limit exceeded, maximum allowed: %v", kinds[i], p.limits.of(i))
	}
	return "", nil
}

// Delete asks for the removal of a sandbox, which counts until wait is over. One
// that is not there is removed already.
func (p *Plane) Delete(_ context.Context, id providers.ID) (wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.begin(OpDelete)
	struck, err := p.admit(OpDelete, now)
	if err != nil {
		return 0, err
	}
	p.calls[OpDelete].Done++
	wait = p.wait(OpDelete, struck)
	if p.boxes[id] == nil || slices.ContainsFunc(p.going, func(d departure) bool { return d.id == id }) {
		return wait, nil
	}
	due := departure{at: now + time.Duration(float64(wait)*p.c.TimeScale), id: id}
	at, _ := slices.BinarySearchFunc(p.going, due, func(a, b departure) int { return cmp.Compare(a.at, b.at) })
	p.going = slices.Insert(p.going, at, due)
	p.depart(now)
	return wait, nil
}

// depart removes what was to be gone by now.
func (p *Plane) depart(now time.Duration) {
	for len(p.going) > 0 && p.going[0].at <= now {
		if p.remove(p.going[0].id) {
			p.gone++
		}
		p.going = p.going[1:]
	}
}

func (p *Plane) remove(id providers.ID) bool {
	s := p.boxes[id]
	if s == nil {
		return false
	}
	delete(p.boxes, id)
	delete(p.names, s.Name)
	p.used = p.used.minus(s.Size.amounts())
	return true
}

// lose makes a sandbox disappear that nobody removed.
func (p *Plane) lose(id providers.ID) {
	if p.remove(id) {
		p.lost++
	}
}

// List returns the sandboxes that match, by id.
func (p *Plane) List(_ context.Context, sel providers.Selector) (found []Sandbox, wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	struck, err := p.admit(OpRead, p.begin(OpRead))
	if err != nil {
		return nil, 0, err
	}
	p.calls[OpRead].Done++
	for _, s := range p.boxes {
		if sel.Matches(s.Name, s.Labels) {
			found = append(found, *s)
		}
	}
	slices.SortFunc(found, func(a, b Sandbox) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return found, p.wait(OpRead, struck), nil
}

// Check is a call that changes nothing.
func (p *Plane) Check(_ context.Context) (wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	struck, err := p.admit(OpRead, p.begin(OpRead))
	if err != nil {
		return 0, err
	}
	p.calls[OpRead].Done++
	return p.wait(OpRead, struck), nil
}

// Exec admits something inside a sandbox. The error carries a providers.Death when
// the sandbox is lost.
func (p *Plane) Exec(_ context.Context, id providers.ID) (wait time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	struck, err := p.admit(OpExec, p.begin(OpExec))
	if err != nil {
		return 0, err
	}
	if struck.lose {
		p.lose(id)
	}
	if p.boxes[id] == nil {
		err := &providers.Error{Op: string(OpExec), ID: string(id), Kind: providers.KindUnavailable, Death: &providers.Death{ExitCode: lostExit, Lost: true}, Err: errLost}
		return 0, p.refuse(OpExec, ReasonGone, err)
	}
	p.calls[OpExec].Done++
	return p.wait(OpExec, struck), nil
}

// lostExit is how the first process of a lost sandbox ended.
const lostExit = 137

var errLost = errors.New("the provider lost the sandbox")

// Counters returns what was asked for and what was done so far.
func (p *Plane) Counters(context.Context) (Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.elapsed()
	p.depart(now)
	c := Counters{
		Seconds: now.Seconds(), Calls: map[Op]Calls{}, InUse: p.used.size(), Peak: p.peak.size(), Limits: p.limits.size(),
		Deleted: p.gone, Lost: p.lost, CreatesPerSec: Rates{Used: p.made.perSecond(now)},
	}
	for op, n := range p.calls {
		c.Calls[op] = n.clone()
	}
	if r, ok := p.c.Rates[OpCreate]; ok {
		c.CreatesPerSec.Allowed = r.perSecond()
	}
	return c, nil
}

// Config is what the plane was made from, complete.
func (p *Plane) Config() Config { return p.c }
