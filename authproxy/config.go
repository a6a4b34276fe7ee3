package authproxy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"harborgate/authproxy/internal/gate"
	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

// NanoUSD is money in billionths of a US dollar; its text is decimal dollars.
type NanoUSD = ledger.NanoUSD

// Sum is what budgets count. A zero field of a budget is no limit.
type Sum = ledger.Sum

// Dialect names a wire format: anthropic, openai, gemini, openrouter.
type Dialect = wire.Dialect

// Usage is what answers used, in tokens by class.
type Usage = wire.Usage

// Reason is why the proxy itself answered with an error.
type Reason = wire.Reason

// Reasons that others ask for.
const (
	KeyRefused  = wire.KeyRefused // the provider refuses our keys
	Forbidden   = wire.Forbidden  // not this grant's upstream or model, or one without a price
	Unlisted    = wire.Unlisted   // a path that is not served
	Unreachable = wire.Down       // the provider cannot be reached
)

// RefusedHeader is the header of every answer that the proxy makes itself; its value
// is a Reason.
const RefusedHeader = wire.Marker

// OwnTrouble are the reasons that are no client's doing.
func OwnTrouble() []Reason {
	return []Reason{wire.KeyRefused, wire.Down, wire.BadAnswer, wire.NotReady, wire.Internal, wire.Busy}
}

// Price is what a model costs, in US dollars for a million tokens.
type Price = ledger.Price

// Config is what the proxy serves: the keys upstreams and budgets of config.yaml.
type Config struct {
	Upstreams map[string]Upstream `yaml:"upstreams"`
	Budgets   Budgets             `yaml:"budgets"`
}

// Budgets are those of grants that state none, and of a day (UTC) over all grants.
type Budgets struct {
	Job   NanoUSD `yaml:"job" json:"job,omitempty"`
	Trial NanoUSD `yaml:"trial" json:"trial,omitempty"`
	Day   NanoUSD `yaml:"day" json:"day,omitempty"`
	// Elsewhere is what other proxies had spent of Day; of the day that it names.
	Elsewhere DaySpent `yaml:"-" json:"elsewhere,omitzero"`
}

// DaySpent is what was spent on a day.
type DaySpent struct {
	Day   string  `json:"day"` // UTC, as 2006-01-02
	Money NanoUSD `json:"usd"`
}

// SpentElsewhere is what other proxies have spent of today's budget, as far as is
// known.
func (b Budgets) SpentElsewhere(now time.Time) NanoUSD {
	if b.Elsewhere.Day != now.UTC().Format(time.DateOnly) {
		return 0
	}
	return b.Elsewhere.Money
}

// Upstream is one model API. Its name is the first part of the path under which
// clients reach it.
type Upstream struct {
	Dialect wire.Dialect `yaml:"dialect"`
	// BaseURL is that of the provider unless given, written as the provider's own
	// client libraries want it: with /v1 for OpenAI's, without for Anthropic's.
	BaseURL string `yaml:"base_url"`
	// KeyIn is where the key goes; the dialect's own place unless given.
	KeyIn wire.Slot `yaml:"key_in"`
	Keys  []KeyRef  `yaml:"keys"`
	// Models are those that may be used: names, or beginnings with a final *. None
	// is all.
	Models    []string         `yaml:"models"`
	Prices    map[string]Price `yaml:"prices"` // before the built-in ones, named like Models; "*" is any model that has none
	Limits    Limits           `yaml:"limits"`
	KeyLimits Limits           `yaml:"key_limits"` // for each key
	// Local allows loopback and private addresses, and plain HTTP.
	Local bool `yaml:"local"`
	// RemoteMedia lets bodies name URLs that a local upstream would fetch from this
	// network.
	RemoteMedia bool     `yaml:"remote_media"`
	Timeouts    Timeouts `yaml:"timeouts"`
	MaxBody     int64    `yaml:"max_body"` // bytes
	Attempts    int      `yaml:"attempts"` // at most, before the first byte of an answer
}

// Limits are how much of an upstream, or of a key, is used. Zero is no limit.
type Limits struct {
	Requests   int           `yaml:"requests_per_minute" json:"requests_per_minute,omitempty"`
	Input      int64         `yaml:"input_tokens_per_minute" json:"input_tokens_per_minute,omitempty"`
	Output     int64         `yaml:"output_tokens_per_minute" json:"output_tokens_per_minute,omitempty"`
	Concurrent int           `yaml:"concurrent" json:"concurrent,omitempty"`
	MaxWait    time.Duration `yaml:"max_wait" json:"max_wait_ns"` // in the queue; then the client is asked to come again
}

func (l Limits) gate() gate.Limits {
	return gate.Limits{Requests: l.Requests, Input: l.Input, Output: l.Output, Concurrent: l.Concurrent}
}

// Timeouts of an upstream. There is none for a whole answer.
type Timeouts struct {
	FirstByte time.Duration `yaml:"first_byte"` // until the answer begins
	Idle      time.Duration `yaml:"idle"`       // between two pieces of it
}

// Defaults of an upstream. Agents wait five minutes for the next byte, so the
// proxy waits longer.
const (
	defaultMaxWait  = 30 * time.Second
	defaultFirst    = 10 * time.Minute
	defaultIdle     = 10 * time.Minute
	defaultMaxBody  = 32 << 20
	defaultAttempts = 3
)

// Validate returns all that is wrong, each with the path of its key.
func (c Config) Validate() error {
	var errs []error
	for _, b := range []struct {
		key   string
		money NanoUSD
	}{{"job", c.Budgets.Job}, {"trial", c.Budgets.Trial}, {"day", c.Budgets.Day}} {
		if b.money < 0 {
			errs = append(errs, fmt.Errorf("budgets: %s is negative", b.key))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		for _, err := range c.Upstreams[name].problems(name) {
			errs = append(errs, fmt.Errorf("upstreams.%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

var cleanName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// tokenPrefix is the first part of a path that carries a token.
const tokenPrefix = "t"

func (u Upstream) problems(name string) []error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !cleanName.MatchString(name) || name == tokenPrefix {
		fail("the name is part of URLs: use up to 32 of a-z, 0-9, - and _, and not %q", tokenPrefix)
	}
	if why := wire.Unsupported(u.Dialect); why != "" {
		return append(errs, fmt.Errorf("dialect: %s", why))
	}
	if _, ok := wire.SpecOf(u.Dialect); !ok {
		return append(errs, fmt.Errorf("dialect: %q is none; there are anthropic, openai (and what is compatible), gemini, openrouter", u.Dialect))
	}
	if _, err := u.base(); err != nil {
		fail("base_url: %w", err)
	}
	errs = append(errs, u.keyProblems()...)
	for model, p := range u.Prices {
		if err := (ledger.Prices{model: p}).Check(); err != nil {
			fail("%w", err)
		}
	}
	if err := checkModels(u.Models); err != nil {
		errs = append(errs, err)
	}
	for _, key := range u.negative() {
		fail("%s is negative", key)
	}
	return errs
}

func (u Upstream) keyProblems() []error {
	var errs []error
	switch {
	case u.KeyIn != "" && !slices.Contains(wire.Slots(), u.KeyIn):
		errs = append(errs, fmt.Errorf("key_in: %q is none; there are %s", u.KeyIn, slots()))
	case u.slot() == wire.NoKey && len(u.Keys) > 0:
		errs = append(errs, errors.New("keys: there are some, and key_in: none says that none is sent; drop one of the two"))
	case u.slot() != wire.NoKey && len(u.Keys) == 0:
		errs = append(errs, errors.New("keys: there is none; write e.g. env:ANTHROPIC_API_KEY, or key_in: none for an upstream that asks for none"))
	}
	seen := map[KeyRef]bool{}
	for i, k := range u.Keys {
		if err := k.check(); err != nil {
			errs = append(errs, fmt.Errorf("keys[%d]: %w", i, err))
		}
		if seen[k] {
			errs = append(errs, fmt.Errorf("keys[%d]: the same key comes twice", i))
		}
		seen[k] = true
	}
	return errs
}

// slots are the places of keys, as words.
func slots() string {
	var names []string
	for _, s := range wire.Slots() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// negative are the keys whose number is below zero.
func (u Upstream) negative() []string {
	var out []string
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"timeouts.first_byte", int64(u.Timeouts.FirstByte)}, {"timeouts.idle", int64(u.Timeouts.Idle)},
		{"max_body", u.MaxBody}, {"attempts", int64(u.Attempts)},
	} {
		if n.value < 0 {
			out = append(out, n.key)
		}
	}
	return slices.Concat(u.Limits.negative("limits."), u.KeyLimits.negative("key_limits."), out)
}

func (l Limits) negative(path string) []string {
	var out []string
	for _, n := range []struct {
		key   string
		value int64
	}{
		{"requests_per_minute", int64(l.Requests)}, {"input_tokens_per_minute", l.Input}, {"output_tokens_per_minute", l.Output},
		{"concurrent", int64(l.Concurrent)}, {"max_wait", int64(l.MaxWait)},
	} {
		if n.value < 0 {
			out = append(out, path+n.key)
		}
	}
	return out
}

func (u Upstream) slot() wire.Slot {
	if u.KeyIn != "" {
		return u.KeyIn
	}
	spec, _ := wire.SpecOf(u.Dialect)
	return spec.Slot
}

// base reads the base URL. Its errors do not repeat the URL, which may hold a
// credential by mistake.
func (u Upstream) base() (*url.URL, error) {
	text := u.BaseURL
	if text == "" {
		spec, _ := wire.SpecOf(u.Dialect)
		text = spec.Default
	}
	b, err := url.Parse(text)
	if err != nil || b.Host == "" {
		return nil, errors.New("it cannot be read; write e.g. https://api.example.com/v1")
	}
	switch a, err := netip.ParseAddr(b.Hostname()); {
	case err != nil: // a name: it is looked at when it is dialled
	case !reachable(a, true):
		return nil, errors.New("its address is none that an upstream may have: link-local, multicast, or where clouds keep their metadata")
	case !reachable(a, u.Local):
		return nil, errors.New("it is on this host or its network; say so with local: true")
	}
	path := strings.TrimSuffix(b.Path, "/")
	switch {
	case b.User != nil || b.RawQuery != "" || b.Fragment != "":
		return nil, errors.New("it holds more than scheme, host and path; keys go to keys")
	case path != "" && !wire.CleanPath(path):
		return nil, errors.New("its path is not a plain one")
	}
	b.Path = path
	return b, u.secure(b.Scheme)
}

// secure refuses schemes that would show the key to the network.
func (u Upstream) secure(scheme string) error {
	switch {
	case scheme == "https" || scheme == "http" && u.Local:
		return nil
	case scheme == "http":
		return errors.New("plain http would show the key to the network; use https, or local: true for a server of your own")
	}
	return errors.New("its scheme is neither https nor http")
}
