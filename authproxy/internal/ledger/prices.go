package ledger

import (
	"bytes"
	_ "embed" // the table of prices
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"harborgate/authproxy/internal/wire"
)

// Rates are prices in US dollars for a million tokens.
type Rates struct {
	Input          NanoUSD `yaml:"input"`
	CacheRead      NanoUSD `yaml:"cache_read"`
	CacheWrite     NanoUSD `yaml:"cache_write"`
	CacheWriteLong NanoUSD `yaml:"cache_write_1h"`
	Output         NanoUSD `yaml:"output"`
}

// Price is what a model costs. Rates left out of Above are those of the model.
type Price struct {
	Rates     `yaml:",inline"`
	Above     *Tier            `yaml:"above"`
	Tiers     map[string]int64 `yaml:"tiers"`      // service tier to percent
	Search    NanoUSD          `yaml:"search"`     // for one search by the provider
	Context   int64            `yaml:"context"`    // the most tokens that go in
	MaxOutput int64            `yaml:"max_output"` // the most that come out
}

// Tier is what a model costs when more than Tokens go in.
type Tier struct {
	Tokens int64 `yaml:"tokens"`
	Rates  `yaml:",inline"`
}

// Prices are those of models, by name, or by the beginning of one with a final *.
type Prices map[string]Price

// Any is the name in an upstream's prices that fits every model.
const Any = "*"

//go:embed prices.yaml
var builtin []byte

// Builtin returns the built-in table and the date that it has.
func Builtin() (Prices, string, error) {
	var doc struct {
		Date   string `yaml:"date"`
		Models Prices `yaml:"models"`
	}
	d := yaml.NewDecoder(bytes.NewReader(builtin))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("built-in prices: %w", err)
	}
	if err := doc.Models.Check(); err != nil {
		return nil, "", fmt.Errorf("built-in prices: %w", err)
	}
	return doc.Models, doc.Date, nil
}

// The believable rates, beside zero: a price for one token, where one for a million
// is meant, is below the cheapest; one for a million millions is above the dearest.
const (
	dearest  = 1000 * USD
	cheapest = USD / 1000
)

// Check finds prices that cannot be meant.
func (p Prices) Check() error {
	var errs []error
	for name, price := range p {
		if err := price.check(); err != nil {
			errs = append(errs, fmt.Errorf("prices of %s: %w", name, err))
		}
		if name == "" || strings.Contains(strings.TrimSuffix(name, Any), Any) {
			errs = append(errs, fmt.Errorf("prices of %q: write a name, or the beginning of one with a final *", name))
		}
	}
	return errors.Join(errs...)
}

func (p Price) check() error {
	ends := []NanoUSD{p.Input, p.Output}
	caches := []NanoUSD{p.CacheRead, p.CacheWrite, p.CacheWriteLong}
	if p.Above != nil {
		ends = append(ends, p.Above.Input, p.Above.Output)
		caches = append(caches, p.Above.CacheRead, p.Above.CacheWrite, p.Above.CacheWriteLong)
	}
	for _, r := range ends {
		if r > 0 && r < cheapest {
			return fmt.Errorf("%s USD looks like the price of one token: prices are US dollars per million tokens", r)
		}
	}
	for _, r := range slices.Concat(ends, caches) {
		switch {
		case r < 0:
			return errors.New("a price is negative")
		case r > dearest:
			return fmt.Errorf("%s USD is more than %s: prices are US dollars per million tokens", r, dearest)
		}
	}
	return nil
}

var dated = regexp.MustCompile(`[-@](20\d{6}|20\d\d-\d\d-\d\d|latest|\d{3})$`)

// Of returns the price of a model: under its own name, then without the vendor
// before a slash and a date behind it, then under the longest beginning with a
// final * that fits. Any is a name like others, and the price of no other model.
func (p Prices) Of(model string) (Price, bool) {
	if price, ok := p[model]; ok {
		return price, true
	}
	whole := model
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, name := range []string{model, dated.ReplaceAllString(model, "")} {
		if price, ok := p[name]; ok {
			return price, true
		}
	}
	return p.beginning(whole, model)
}

// beginning returns the price under the longest beginning that fits the model, with
// or without its vendor.
func (p Prices) beginning(whole, model string) (Price, bool) {
	best := ""
	for name := range p {
		start, open := strings.CutSuffix(name, Any)
		fits := strings.HasPrefix(whole, start) || strings.HasPrefix(model, start)
		if open && start != "" && len(name) > len(best) && fits {
			best = name
		}
	}
	price, ok := p[best]
	return price, ok
}

// Cost is what usage costs in a service tier.
func (p Price) Cost(u wire.Usage, tier string) NanoUSD {
	r := p.at(u.Prompt())
	sum := perMillion(u.Input, r.Input)
	sum = plus(sum, perMillion(u.CacheRead, r.CacheRead))
	sum = plus(sum, perMillion(u.CacheWrite, r.CacheWrite))
	sum = plus(sum, perMillion(u.CacheWriteLong, r.CacheWriteLong))
	sum = plus(sum, perMillion(u.Output, r.Output))
	if percent, ok := p.Tiers[tier]; ok {
		sum = sum / 100 * NanoUSD(percent)
	}
	const million = 1_000_000
	return plus(sum, perMillion(u.Searches*million, p.Search))
}

// at returns the rates for a number of tokens that go in. A cache price that is
// not stated is that of input: dearer than true, never free.
func (p Price) at(prompt int64) Rates {
	r := p.Rates
	if p.Above != nil && prompt > p.Above.Tokens {
		a := p.Above.Rates
		r = Rates{
			Input: or(a.Input, r.Input), Output: or(a.Output, r.Output), CacheRead: or(a.CacheRead, r.CacheRead),
			CacheWrite: or(a.CacheWrite, r.CacheWrite), CacheWriteLong: or(a.CacheWriteLong, r.CacheWriteLong),
		}
	}
	r.CacheRead = or(r.CacheRead, r.Input)
	r.CacheWrite = or(r.CacheWrite, r.Input)
	r.CacheWriteLong = or(r.CacheWriteLong, r.CacheWrite)
	return r
}

func or(a, b NanoUSD) NanoUSD {
	if a != 0 {
		return a
	}
	return b
}

// unlimited stands for what a model puts out at most when nobody says.
const unlimited = 32_000

// Worst is the most that a request is thought to use: everything of the body as dear
// input, as much output as it may ask for, and all searches. What goes in is an
// estimate: text of models has about four bytes in a token, and rarely less than three;
// text that is made of rare signs has.
func (p Price) Worst(bodyBytes int, a wire.Ask) wire.Usage {
	const bytesPerToken = 3
	in := int64(bodyBytes)/bytesPerToken + 1
	if p.Context > 0 {
		in = min(in, p.Context)
		if a.Previous != "" {
			in = p.Context // what was said before is not in the body
		}
	}
	out := a.MaxOutput
	if most := p.MaxOutput; most > 0 && (out == 0 || out > most) {
		out = most
	}
	if out == 0 {
		out = unlimited
	}
	return wire.Usage{Input: in, Output: out * max(1, a.Choices), Searches: a.Searches}
}

// WorstCost is what Worst costs at most: input may turn out to be written to a
// cache, which is dearer.
func (p Price) WorstCost(u wire.Usage, tier string) NanoUSD {
	long := u
	long.Input, long.CacheWriteLong = 0, u.Input
	return max(p.Cost(u, tier), p.Cost(long, tier))
}
