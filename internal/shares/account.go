package shares

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Need is what one sandbox takes. Zero but for sandboxes is not declared.
type Need struct {
	Sandboxes int   `json:"sandboxes,omitempty"`
	MilliCPUs int64 `json:"milli_cpus,omitempty"`
	MemoryMiB int64 `json:"memory_mib,omitempty"`
	DiskMiB   int64 `json:"disk_mib,omitempty"`
	GPUs      int   `json:"gpus,omitempty"`
}

func (n Need) plus(o Need) Need {
	return Need{n.Sandboxes + o.Sandboxes, n.MilliCPUs + o.MilliCPUs, n.MemoryMiB + o.MemoryMiB, n.DiskMiB + o.DiskMiB, n.GPUs + o.GPUs}
}

// minus never goes below nothing.
func (n Need) minus(o Need) Need {
	return Need{
		max(0, n.Sandboxes-o.Sandboxes), max(0, n.MilliCPUs-o.MilliCPUs), max(0, n.MemoryMiB-o.MemoryMiB),
		max(0, n.DiskMiB-o.DiskMiB), max(0, n.GPUs-o.GPUs),
	}
}

// lack names of what there is too little for need beside what is used, within limits, of
// which zero is none; "" when there is room. What need does not take is not lacking, and
// what is larger than a limit has room where nothing of it is used.
func (n Need) lack(need, limits Need) string {
	over := func(used, need, limit int64) bool { return limit > 0 && need > 0 && used > 0 && used+need > limit }
	switch {
	case over(int64(n.Sandboxes), int64(need.Sandboxes), int64(limits.Sandboxes)):
		return "sandboxes"
	case over(n.MilliCPUs, need.MilliCPUs, limits.MilliCPUs):
		return "cpus"
	case over(n.MemoryMiB, need.MemoryMiB, limits.MemoryMiB):
		return "memory_mb"
	case over(n.DiskMiB, need.DiskMiB, limits.DiskMiB):
		return "disk_mb"
	case over(int64(n.GPUs), int64(need.GPUs), int64(limits.GPUs)):
		return "gpus"
	}
	return ""
}

// account is what the processes of a host use of one provider together. Times are
// nanoseconds of a clock that all of them have. It is changed by the rules below
// alone, which are pure.
type account struct {
	Boot    string           `json:"boot"` // of the clock
	Owners  map[string]*part `json:"owners,omitempty"`
	Paces   map[string]*pace `json:"paces,omitempty"`  // by class of call
	Pauses  map[string]Hold  `json:"pauses,omitempty"` // by class: nobody calls before
	Learned *learned         `json:"learned,omitempty"`
	Away    *absence         `json:"away,omitempty"`
	Refused *Refusal         `json:"refused,omitempty"` // the latest
}

// part is one process's.
type part struct {
	Label string `json:"label,omitempty"`
	Use   Need   `json:"use"`
	// Limits are what it holds itself to.
	Limits Need `json:"limits,omitzero"`
	// Waiting are its trials that wait for more.
	Waiting int `json:"waiting,omitempty"`
	// Want is what it was refused at Asked, and asks for again while it waits: the largest
	// of what it asks for.
	Want  Need  `json:"want"`
	Asked int64 `json:"asked,omitempty"`
}

// Hold is a pause that a provider asked for.
type Hold struct {
	Until int64  `json:"until"`
	Why   string `json:"why,omitempty"`
}

// learned is a capacity below the configured one, that a provider showed.
type learned struct {
	Sandboxes int           `json:"sandboxes"`
	Until     int64         `json:"until"`
	For       time.Duration `json:"for"`
	Why       string        `json:"why,omitempty"`
}

// absence is that a provider does not answer: those who ask it say so each time, and it
// is believed until Until.
type absence struct {
	Since int64  `json:"since"`
	Until int64  `json:"until"`
	Why   string `json:"why"`
}

// Refusal is why a lease was not given.
type Refusal struct {
	At  int64  `json:"at"`
	Why string `json:"why"`
}

// Rules of waiting.
const (
	// patience is how long a process that was refused counts as waiting, unless it
	// asks again; it does each second.
	patience = 3 * time.Second
	// A provider that is exhausted is believed for so long, each time twice as long.
	firstBelief, longestBelief = 30 * time.Second, 5 * time.Minute
	// absent is how long it is believed that a provider does not answer, unless somebody
	// who asks it says so again. Asking takes 20 s at most.
	absent = 40 * time.Second
)

// of makes an account one of this boot: what there was before has ended with it.
func (a *account) of(boot string) {
	if a.Boot != boot {
		*a = account{Boot: boot}
	}
}

func (a *account) owner(id, label string) *part {
	if a.Owners == nil {
		a.Owners = map[string]*part{}
	}
	p := a.Owners[id]
	if p == nil {
		p = &part{}
		a.Owners[id] = p
	}
	p.Label = cmp.Or(label, p.Label)
	return p
}

func (a *account) used() Need {
	var sum Need
	for _, p := range a.Owners {
		sum = sum.plus(p.Use)
	}
	return sum
}

// acquire gives id a lease, or says why not: "" is given. A process that uses less
// and waits comes first, with what it was refused. What is larger than a limit has
// it when nobody else has any of that.
func (a *account) acquire(id, label string, need, limits Need, now int64) (why string) {
	why, _ = a.admit(id, label, need, limits, rate{}, now)
	return why
}

// admit is acquire for a sandbox that is made at once: there must be a turn for that,
// too, and it is taken. again is when that will be, if nothing else is in the way.
func (a *account) admit(id, label string, need, limits Need, r rate, now int64) (why string, again time.Duration) {
	used, mine := a.used(), a.owner(id, label)
	mine.Limits = limits
	turns, next, held := a.due(r, now)
	switch why = a.full(used, need, limits, now); {
	case why != "":
	case turns == 0:
		why, again = held, next
	default:
		if why = a.yields(id, used, need, limits, turns, now); why != "" {
			again = next
		}
	}
	if why != "" {
		mine.wants(need, now)
		a.Refused = &Refusal{At: now, Why: why}
		return why, again
	}
	mine.Use = mine.Use.plus(need)
	if mine.Want == need {
		mine.Want, mine.Asked = Need{}, 0
	}
	if r.PerSecond > 0 {
		a.turn(creates, r.PerSecond, r.Burst, now)
	}
	return "", 0
}

func (a *account) full(used, need, limits Need, now int64) string {
	if lack := used.lack(need, limits); lack != "" {
		return "the limit of " + lack + " is reached"
	}
	if l := a.Learned; l != nil && now < l.Until && used.Sandboxes >= l.Sandboxes {
		return "the provider has no room: " + l.Why
	}
	return ""
}

// wants keeps what a process was refused. A smaller one beside it changes nothing as long
// as the larger is asked for again.
func (p *part) wants(need Need, now int64) {
	if beside := need != p.Want && need.minus(p.Want) == (Need{}); beside && now-p.Asked < int64(patience) {
		return
	}
	p.Want, p.Asked = need, now
}

// yields says for whom id waits although there is room: with what those were refused
// who use less, there is none of what id takes, or those of them who could make a sandbox
// now use up the turns for that.
func (a *account) yields(id string, used, need, limits Need, turns int, now int64) string {
	mine := a.Owners[id].Use.Sandboxes
	after, hungry := used, 0
	for other, p := range a.Owners {
		if other == id || p.Asked == 0 || now-p.Asked >= int64(patience) || p.Use.Sandboxes >= mine {
			continue
		}
		room := used.lack(p.Want, limits) == ""
		if room && used.lack(p.Want, p.Limits) != "" {
			continue // by limits of its own: nobody would use what id leaves
		}
		after = after.plus(p.Want)
		if room {
			hungry++
		}
	}
	if hungry >= turns || after.lack(need, limits) != "" {
		return "another job that has less waits"
	}
	return ""
}

// release takes a lease back. An owner that uses and wants nothing is forgotten.
func (a *account) release(id string, need Need) {
	p := a.Owners[id]
	if p == nil {
		return
	}
	p.Use = p.Use.minus(need)
	a.tidy(id)
}

func (a *account) tidy(id string) {
	if p := a.Owners[id]; p != nil && p.Use == (Need{}) && p.Asked == 0 && p.Waiting == 0 {
		delete(a.Owners, id)
	}
}

// leave is the end of an owner: nothing is left of it but what it did not give back.
func (a *account) leave(id string) {
	if p := a.Owners[id]; p != nil {
		p.Want, p.Asked, p.Waiting = Need{}, 0, 0
	}
	a.tidy(id)
}

// exhausted learns that the provider has room for less than what is used now, and
// believes it for a while. Of several that were under way together, each that is refused
// says that there is room for one less.
func (a *account) exhausted(why string, now int64) {
	used, belief := a.used().Sandboxes, firstBelief
	if l := a.Learned; l != nil {
		if now < l.Until {
			l.Sandboxes = max(1, min(used, l.Sandboxes)-1)
			return
		}
		if now-l.Until < int64(l.For) {
			belief = min(2*l.For, longestBelief)
		}
	}
	a.Learned = &learned{Sandboxes: max(1, used-1), Until: now + int64(belief), For: belief, Why: why}
}

// away learns that the provider did not answer.
func (a *account) away(why string, now int64) {
	since := now
	if a.Away != nil && now < a.Away.Until {
		since = a.Away.Since
	}
	a.Away = &absence{Since: since, Until: now + int64(absent), Why: why}
}

// cool lets nobody call a class before until.
func (a *account) cool(class string, until int64, why string) {
	if a.Pauses == nil {
		a.Pauses = map[string]Hold{}
	}
	if until > a.Pauses[class].Until {
		a.Pauses[class] = Hold{Until: until, Why: why}
	}
}

// forget drops what dead processes had, and what is over. It reports whether there
// was anything.
func (a *account) forget(dead func(id string) bool) bool {
	n := len(a.Owners)
	maps.DeleteFunc(a.Owners, func(id string, _ *part) bool { return dead(id) })
	return len(a.Owners) != n
}

// pace is the rate of one class of calls: a leaky bucket of which only the time is
// kept at which it will be empty, so that any process can take from it.
type pace struct {
	Empty int64 `json:"empty"` // when the bucket will be
	Taken int64 `json:"taken"` // turns in all
	// Recent are turns of the latest slices of time, to show a rate.
	Recent []slice `json:"recent,omitempty"`
}

type slice struct {
	Start int64 `json:"start"`
	Turns int64 `json:"turns"`
}

// What is remembered of a rate: a minute.
const (
	sliceLength = 5 * time.Second
	slices60    = 12
)

// turn takes the next turn of a class and returns how long it is away. Half of the
// burst, rounded up, is taken at once; the rest is the provider's patience with calls
// that reach it later than those behind them.
func (a *account) turn(class string, perSecond float64, burst int, now int64) time.Duration {
	if a.Paces == nil {
		a.Paces = map[string]*pace{}
	}
	p := a.Paces[class]
	if p == nil {
		p = &pace{}
		a.Paces[class] = p
	}
	wait := a.next(class, perSecond, burst, now)
	p.Empty = max(p.Empty, now) + interval(perSecond)
	p.Taken++
	p.remember(now + int64(wait))
	return wait
}

// next is how long the next turn of a class is away.
func (a *account) next(class string, perSecond float64, burst int, now int64) time.Duration {
	empty := now
	if p := a.Paces[class]; p != nil {
		empty = max(empty, p.Empty)
	}
	return time.Duration(max(0, empty-(atOnce(burst)-1)*interval(perSecond)-now))
}

func interval(perSecond float64) int64 { return int64(float64(time.Second) / perSecond) }

// atOnce is half of a burst, rounded up.
func atOnce(burst int) int64 { return int64(max(burst+1, 2) / 2) }

func (p *pace) remember(at int64) {
	start := at - at%int64(sliceLength)
	i := slices.IndexFunc(p.Recent, func(s slice) bool { return s.Start == start })
	if i < 0 {
		p.Recent = append(p.Recent, slice{Start: start})
		p.Recent = p.Recent[max(0, len(p.Recent)-2*slices60):]
		i = len(p.Recent) - 1
	}
	p.Recent[i].Turns++
}

// perSecond is the rate over the latest minute.
func (p *pace) perSecond(now int64) float64 {
	var n int64
	first := now - int64(slices60)*int64(sliceLength)
	for _, s := range p.Recent {
		if s.Start > first && s.Start <= now {
			n += s.Turns
		}
	}
	return float64(n) / (time.Duration(slices60) * sliceLength).Seconds()
}
