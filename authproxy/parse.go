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
)

// Parse reads a configuration. Unknown keys are errors, each an UnknownKeyError. It
// resolves no key.
func Parse(text []byte) (Config, error) {
	var c Config
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, readable(err)
	}
	return c, errors.Join(halfPrices(text), c.Validate())
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
