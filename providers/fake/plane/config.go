package plane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Config is what a control plane allows and how it behaves. Times and rates are
// those of the simulation.
//
//	profile: daytona-tier-3          # what is not said here is as there
//	time_scale: 60                   # a minute takes a second
//	limits: {disk_mb: 1000000}
//	rates: {create: {per_sec: 2, burst: 5}, read: {per_min: 10000}}
//	latency: {create: {sec: 1.5, spread: 0.3}}
//	faults: [{effect: down, from_sec: 120, for_sec: 30}]
type Config struct {
	Profile   string  `json:"profile,omitempty"   yaml:"profile"`
	TimeScale float64 `json:"time_scale"          yaml:"time_scale"` // 0 is 1
	Seed      uint64  `json:"seed"                yaml:"seed"`       // of chance

	Limits  Size `json:"limits"  yaml:"limits"`  // of all sandboxes together
	Sandbox Size `json:"sandbox" yaml:"sandbox"` // what one has that does not say
	Largest Size `json:"largest" yaml:"largest"` // that one may be

	Rates   map[Op]Rate    `json:"rates"   yaml:"rates"`
	Latency map[Op]Latency `json:"latency" yaml:"latency"`
	Faults  []Fault        `json:"faults"  yaml:"faults"`
}

// Latency is how long calls of a class take: Sec, give or take the part Spread of
// it, evenly.
type Latency struct {
	Sec    float64 `json:"sec"    yaml:"sec"`
	Spread float64 `json:"spread" yaml:"spread"`
}

func (o Op) known() bool { return slices.Contains(ops, o) }

// Read reads a Config. Unknown keys are errors.
func Read(r io.Reader) (Config, error) {
	var c Config
	d := yaml.NewDecoder(r)
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, readable(err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Config{}, errors.New("there is more than one document")
	}
	return c.complete()
}

// What the reader says, and what that means to who does not know its types and ours.
var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
	wrongValue   = regexp.MustCompile(`cannot unmarshal !!(\w+)(.*) into \S+`)
)

// readable words the reader's errors for who wrote the file.
func readable(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err
	}
	errs := make([]error, len(wrong.Errors))
	for i, text := range wrong.Errors {
		text = unknownField.ReplaceAllString(text, "$1 is no key there")
		errs[i] = errors.New(wrongValue.ReplaceAllString(text, "a $1$2 cannot stand there"))
	}
	return fmt.Errorf("%w; docs/providers.md has the keys and their values", errors.Join(errs...))
}

// ReadFile reads a Config from a file.
func ReadFile(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("simulated provider: %w", err)
	}
	c, err := Read(bytes.NewReader(text))
	if err != nil {
		return Config{}, fmt.Errorf("simulated provider: %s: %w", path, err)
	}
	return c, nil
}

// complete fills in the profile and finds what is wrong.
func (c Config) complete() (Config, error) {
	if c.Profile != "" {
		p, ok := profiles()[c.Profile]
		if !ok {
			return Config{}, fmt.Errorf("profile %q is not known: use one of %s", c.Profile, strings.Join(Profiles(), ", "))
		}
		c = c.over(p)
	}
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	return c, c.validate()
}

// fastest is the largest time_scale, rarest the smallest rate.
const (
	fastest = 1_000_000
	rarest  = 1e-6
)

// over takes from p what c does not say.
func (c Config) over(p Config) Config {
	c.Limits, c.Sandbox, c.Largest = c.Limits.or(p.Limits), c.Sandbox.or(p.Sandbox), c.Largest.or(p.Largest)
	rates := maps.Clone(p.Rates)
	maps.Copy(rates, c.Rates)
	c.Rates = rates
	return c
}

func (c Config) validate() error {
	errs := []error{}
	if !(c.TimeScale > 0 && c.TimeScale <= fastest) {
		errs = append(errs, fmt.Errorf("time_scale is %v, want more than 0 and at most %d", c.TimeScale, fastest))
	}
	for _, s := range []struct {
		key  string
		size Size
	}{{"limits", c.Limits}, {"sandbox", c.Sandbox}, {"largest", c.Largest}} {
		if s.size.amounts().negative() {
			errs = append(errs, fmt.Errorf("%s: a number is less than 0", s.key))
		}
	}
	for op, r := range c.Rates {
		errs = append(errs, r.validate(op))
	}
	for op, l := range c.Latency {
		if !op.known() || l.Sec < 0 || l.Spread < 0 || l.Spread > 1 {
			errs = append(errs, fmt.Errorf("latency.%s: want sec ≥ 0, spread from 0 to 1, and one of the classes %v", op, ops))
		}
	}
	for _, f := range c.Faults {
		errs = append(errs, f.validate())
	}
	return errors.Join(errs...)
}

func (r Rate) validate(op Op) error {
	switch {
	case !op.known():
		return fmt.Errorf("rates.%s: no class of calls; use one of %v", op, ops)
	case r.PerSec != 0 && !(r.PerSec >= rarest) || r.Burst < 0 || r.PerMin < 0:
		return fmt.Errorf("rates.%s: a number is too small", op)
	case r.PerMin > 0 && (r.PerSec > 0 || r.Burst > 0):
		return fmt.Errorf("rates.%s: per_min has neither per_sec nor burst beside it", op)
	case r.PerSec == 0 && r.Burst > 0:
		return fmt.Errorf("rates.%s: burst needs per_sec", op)
	}
	return nil
}

// Profiles lists the profiles that a Config may name.
func Profiles() []string { return slices.Sorted(maps.Keys(profiles())) }

// profiles are limits as they are published, per organization or account.
func profiles() map[string]Config {
	out := map[string]Config{
		// A new account: five vCPUs of standard instances on demand in a region; an
		// instance is a t3.medium. Buckets are those of RunInstances, TerminateInstances
		// and filtered Describe calls.
		"ec2-default": {
			Limits: Size{CPUs: 5}, Sandbox: Size{CPUs: 2, MemoryMiB: 4 << 10, DiskMiB: 8 << 10},
			Rates: map[Op]Rate{OpCreate: {PerSec: 2, Burst: 5}, OpDelete: {PerSec: 5, Burst: 100}, OpRead: {PerSec: 20, Burst: 100}},
		},
	}
	const gib = 1 << 10
	for tier, t := range []struct{ cpus, memory, disk, reads, creates, lifecycle int }{
		{10, 10, 30, 10_000, 300, 10_000},
		{100, 200, 300, 20_000, 400, 20_000},
		{250, 500, 2_000, 40_000, 500, 40_000},
		{500, 1_000, 5_000, 50_000, 600, 50_000},
	} {
		out[fmt.Sprintf("daytona-tier-%d", tier+1)] = Config{
			Limits:  Size{CPUs: float64(t.cpus), MemoryMiB: int64(t.memory) * gib, DiskMiB: int64(t.disk) * gib},
			Sandbox: Size{CPUs: 1, MemoryMiB: gib, DiskMiB: 3 * gib},
			Largest: Size{CPUs: 4, MemoryMiB: 8 * gib, DiskMiB: 10 * gib},
			Rates:   map[Op]Rate{OpCreate: {PerMin: t.creates}, OpDelete: {PerMin: t.lifecycle}, OpRead: {PerMin: t.reads}},
		}
	}
	return out
}
