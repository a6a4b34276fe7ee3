package plane

import (
	"maps"
	"time"
)

// Reason is why a call was refused: one of these, or what there was too little of
// ("sandboxes", "cpus", "memory_mb", "disk_mb", "gpus").
type Reason string

// Reasons besides a quota.
const (
	ReasonRate      Reason = "rate"
	ReasonDown      Reason = "down"
	ReasonExhausted Reason = "exhausted" // a fault
	ReasonTaken     Reason = "name"
	ReasonTooLarge  Reason = "too-large"
	ReasonGone      Reason = "gone"
)

// Calls are those of one class. Asked is the sum of the others.
type Calls struct {
	Asked   int64            `json:"asked"`
	Done    int64            `json:"done"`
	Refused map[Reason]int64 `json:"refused"`
}

func (c Calls) clone() Calls {
	c.Refused = maps.Clone(c.Refused)
	return c
}

// Counters are what a control plane has seen. Creates that were done are those that
// are in use, deleted or lost.
type Counters struct {
	Seconds float64      `json:"seconds"` // of the simulation, since its start
	Calls   map[Op]Calls `json:"calls"`
	InUse   Size         `json:"in_use"`
	Peak    Size         `json:"peak"` // of each amount, at any instant
	Limits  Size         `json:"limits"`
	Deleted int64        `json:"deleted"`
	Lost    int64        `json:"lost"`
	// CreatesPerSec are sandboxes made in a second of the simulation, over the latest
	// minute.
	CreatesPerSec Rates `json:"creates_per_sec"`
}

// Rates are a rate beside its limit; zero is no limit.
type Rates struct {
	Used    float64 `json:"used"`
	Allowed float64 `json:"allowed"`
}

// Quota is how many creates found no room.
func (c Counters) Quota() int64 {
	var n int64
	for _, k := range kinds {
		n += c.Calls[OpCreate].Refused[Reason(k)]
	}
	return n
}

// Throttled is how many calls came too fast.
func (c Counters) Throttled() int64 {
	var n int64
	for _, calls := range c.Calls {
		n += calls.Refused[ReasonRate]
	}
	return n
}

// meter counts what happens in each of the latest sixty seconds.
type meter struct {
	second [60]int64 // which second a count is of
	count  [60]int64
}

func (m *meter) add(now time.Duration) {
	s := int64(now / time.Second)
	i := s % int64(len(m.second))
	if m.second[i] != s {
		m.second[i], m.count[i] = s, 0
	}
	m.count[i]++
}

func (m *meter) perSecond(now time.Duration) float64 {
	s, n := int64(now/time.Second), int64(0)
	for i := range m.second {
		if m.second[i] > s-int64(len(m.second)) {
			n += m.count[i]
		}
	}
	return float64(n) / min(max(now.Seconds(), 1), time.Minute.Seconds())
}
