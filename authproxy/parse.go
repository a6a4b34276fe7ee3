package authproxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"harborgate/authproxy/internal/ledger"
)

// Parse reads a configuration. Unknown keys are errors, each an UnknownKeyError. It
// resolves no key.
func Parse(text []byte) (Config, error) {
	var c Config
	if err := sums(text); err != nil {
		return Config{}, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, readable(err)
	}
	return c, errors.Join(halfPrices(text), c.Validate())
}

// sums finds sums of money that cannot be read, and says under which key: the reader
// of YAML does not know. Of what has another shape it says nothing.
func sums(text []byte) error {
	var said struct {
		Budgets   map[string]yaml.Node
		Upstreams map[string]struct {
			Prices map[string]map[string]yaml.Node
		}
	}
	var shape *yaml.TypeError // the strict reader words it
	if err := yaml.Unmarshal(text, &said); err != nil && !errors.As(err, &shape) {
		return readable(err)
	}
	errs := sumsOf("budgets: ", said.Budgets)
	for _, name := range slices.Sorted(maps.Keys(said.Upstreams)) {
		prices := said.Upstreams[name].Prices
		for _, model := range slices.Sorted(maps.Keys(prices)) {
			errs = append(errs, sumsOf(fmt.Sprintf("upstreams.%s: prices of %s: ", name, model), prices[model])...)
		}
	}
	return errors.Join(errs...)
}

// sumsOf finds those among the keys of one mapping, and below above.
func sumsOf(where string, keys map[string]yaml.Node) []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		node := keys[key]
		switch {
		case key == "above":
			var above map[string]yaml.Node
			if node.Decode(&above) == nil {
				errs = append(errs, sumsOf(where+"above.", above)...)
			}
		case node.Kind != yaml.ScalarNode || node.ShortTag() == "!!null" || slices.Contains([]string{"tiers", "context", "max_output", "tokens"}, key):
		default:
			if _, err := ledger.ParseUSD(node.Value); err != nil {
				errs = append(errs, fmt.Errorf("%s%s: %w", where, key, err))
			}
		}
	}
	return errs
}

// halfPrices finds prices that leave out what goes in or what comes out: that would
// be free, which is to be written as 0.
func halfPrices(text []byte) error {
	var said struct {
		Upstreams map[string]struct {
			Prices map[string]struct{ Input, Output *NanoUSD }
		}
	}
	if err := yaml.Unmarshal(text, &said); err != nil {
		return readable(err)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(said.Upstreams)) {
		prices := said.Upstreams[name].Prices
		for _, model := range slices.Sorted(maps.Keys(prices)) {
			if p := prices[model]; p.Input == nil || p.Output == nil {
				errs = append(errs, fmt.Errorf("upstreams.%s: prices of %s: give both input and output; what is free is 0", name, model))
			}
		}
	}
	return errors.Join(errs...)
}

// UnknownKeyError is a key that no configuration has at that place.
type UnknownKeyError struct {
	Key   string
	Known []string // keys of that place
}

func (e *UnknownKeyError) Error() string {
	return e.Key + " is not a known key, see docs/auth-proxy.md"
}

var unknownKey = regexp.MustCompile(`line \d+: field (\S+) not found in type (\S+)`)

// readable words the reader's errors for who wrote the file.
func readable(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("read auth proxy configuration: %w", err)
	}
	var errs []error
	for _, text := range wrong.Errors {
		if m := unknownKey.FindStringSubmatch(text); m != nil {
			errs = append(errs, &UnknownKeyError{Key: m[1], Known: keysOf(m[2])})
		} else {
			errs = append(errs, errors.New(text))
		}
	}
	return errors.Join(errs...)
}

// keysOf are the keys of a part of the configuration, by the name of its type.
func keysOf(name string) []string {
	var out []string
	for _, part := range []any{Config{}, Budgets{}, Upstream{}, Limits{}, Timeouts{}, Price{}} {
		t := reflect.TypeOf(part)
		if t.String() != name {
			continue
		}
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			out = append(out, key)
		}
	}
	return out
}
