package shares

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Standing is what a host uses of one provider at a moment.
type Standing struct {
	Provider string `json:"provider"`
	Use      Amount `json:"use"`
	// Limits are the smallest that a living process holds itself to; zero is none.
	Limits  Amount          `json:"-"`
	Waiting int             `json:"waiting"` // trials of all processes
	Owners  []OwnerStanding `json:"owners"`
	Paces   []PaceStanding  `json:"paces"` // of classes of calls that have a limit
	// Pauses are the classes of calls that nobody may make.
	Pauses []PauseStanding `json:"pauses"`
	// Capacity is what the provider showed to have room for, below what is configured;
	// zero is not known to be less.
	Capacity    int    `json:"capacity,omitempty"`
	CapacityWhy string `json:"capacity_why,omitempty"`
	// Away is why the provider does not answer, AwayFor how long it did not.
	Away    string        `json:"away,omitempty"`
	AwayFor time.Duration `json:"away_for_ns,omitempty"`
	// Refused is why the latest lease was not given, Ago how long that is.
	Refused    string        `json:"refused,omitempty"`
	RefusedAgo time.Duration `json:"refused_ago_ns,omitempty"`
	// Unread is why it is not known how the provider stands.
	Unread string `json:"unread,omitempty"`
}

// Amount is a Need in the units of the configuration.
type Amount struct {
	Sandboxes int     `json:"sandboxes"`
	CPUs      float64 `json:"cpus"`
	MemoryMiB int64   `json:"memory_mb"`
	DiskMiB   int64   `json:"disk_mb"`
	GPUs      int     `json:"gpus"`
}

func (n Need) amount() Amount {
	return Amount{n.Sandboxes, float64(n.MilliCPUs) / 1000, n.MemoryMiB, n.DiskMiB, n.GPUs}
}

// within returns the smaller of two limits in each resource; zero is none.
func (n Need) within(o Need) Need {
	return Need{
		smaller(n.Sandboxes, o.Sandboxes), smaller(n.MilliCPUs, o.MilliCPUs), smaller(n.MemoryMiB, o.MemoryMiB),
		smaller(n.DiskMiB, o.DiskMiB), smaller(n.GPUs, o.GPUs),
	}
}

func smaller[T int | int64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// OwnerStanding is one process.
type OwnerStanding struct {
	ID      string `json:"id"`
	PID     int    `json:"pid"`
	Label   string `json:"label"`
	Use     Amount `json:"use"`
	Waiting int    `json:"waiting"` // its trials that would run now if there was room
	Alive   bool   `json:"alive"`
}

// PaceStanding is one class of calls.
type PaceStanding struct {
	Class     string  `json:"class"`
	Turns     int64   `json:"turns"`      // since the host was started
	PerSecond float64 `json:"per_second"` // over the latest minute
}

// PauseStanding is how long nobody makes calls of a class, and why.
type PauseStanding struct {
	Class string        `json:"class"`
	Left  time.Duration `json:"left_ns"`
	Why   string        `json:"why"`
}

// Standings returns how the providers stand whose shares processes of this host have
// used, by name. One whose file cannot be read keeps no other from being shown.
func (o *Owner) Standings() ([]Standing, error) {
	dir := filepath.Join(filepath.Dir(o.dir), poolsDir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []Standing
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), bellEnd) {
			continue
		}
		s, err := o.standing(filepath.Join(dir, e.Name()))
		if err != nil {
			s = Nothing(e.Name())
			s.Unread = err.Error()
		}
		out = append(out, s)
	}
	return out, nil
}

func (o *Owner) standing(path string) (s Standing, err error) {
	b, err := openBook(path)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	a, err := b.look()
	if err != nil {
		return s, err
	}
	a.of(boot())
	return a.standing(filepath.Base(path), now(), o.Alive), nil
}

// Nothing is how a provider stands of which nothing was had.
func Nothing(provider string) Standing {
	return Standing{Provider: provider, Owners: []OwnerStanding{}, Paces: []PaceStanding{}, Pauses: []PauseStanding{}}
}

func (a *account) standing(provider string, now int64, alive func(string) bool) Standing {
	s := Nothing(provider)
	s.Use = a.used().amount()
	var limits Need
	for id, p := range a.Owners {
		o := OwnerStanding{ID: id, PID: identityOf(id).pid, Label: p.Label, Use: p.Use.amount(), Alive: alive(id)}
		if o.Alive {
			o.Waiting = p.Waiting
			limits = limits.within(p.Limits)
		}
		s.Waiting += o.Waiting
		s.Owners = append(s.Owners, o)
	}
	s.Limits = limits.amount()
	slices.SortFunc(s.Owners, func(x, y OwnerStanding) int { return strings.Compare(x.ID, y.ID) })
	for class, p := range a.Paces {
		s.Paces = append(s.Paces, PaceStanding{class, p.Taken, p.perSecond(now)})
	}
	slices.SortFunc(s.Paces, func(x, y PaceStanding) int { return strings.Compare(x.Class, y.Class) })
	for class, h := range a.Pauses {
		if h.Until > now {
			s.Pauses = append(s.Pauses, PauseStanding{class, time.Duration(h.Until - now), h.Why})
		}
	}
	slices.SortFunc(s.Pauses, func(x, y PauseStanding) int { return strings.Compare(x.Class, y.Class) })
	if l := a.Learned; l != nil && l.Until > now {
		s.Capacity, s.CapacityWhy = l.Sandboxes, l.Why
	}
	if w := a.Away; w != nil && w.Until > now {
		s.Away, s.AwayFor = w.Why, time.Duration(now-w.Since)
	}
	if a.Refused != nil {
		s.Refused, s.RefusedAgo = a.Refused.Why, time.Duration(now-a.Refused.At)
	}
	return s
}
