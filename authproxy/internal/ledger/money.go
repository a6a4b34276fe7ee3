// Package ledger counts money and tokens: prices of models, budgets that are
// reserved before a request and settled after it, and a journal that keeps both
// over restarts.
package ledger

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// NanoUSD is money in billionths of a US dollar. Sums of money are integers
// everywhere; only text is decimal.
type NanoUSD int64

// USD is one dollar.
const USD NanoUSD = 1e9

// digits are those behind the point of a dollar.
const digits = 9

// String is the sum in dollars, without zeros at the end: "0.00375".
func (n NanoUSD) String() string {
	sign, u := "", uint64(n) //nolint:gosec // negative ones are turned around below
	if n < 0 {
		sign, u = "-", uint64(-n)
	}
	whole, part := u/uint64(USD), u%uint64(USD)
	if part == 0 {
		return sign + strconv.FormatUint(whole, 10)
	}
	return sign + strconv.FormatUint(whole, 10) + "." + strings.TrimRight(strconv.FormatUint(part+uint64(USD), 10)[1:], "0")
}

// Dollars is the sum as a number that is not exact.
func (n NanoUSD) Dollars() float64 { return float64(n) / float64(USD) }

// MarshalText writes the sum in dollars.
func (n NanoUSD) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// MarshalJSON writes the sum in dollars, as a number.
func (n NanoUSD) MarshalJSON() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalJSON reads a sum in dollars, a number or a text.
func (n *NanoUSD) UnmarshalJSON(b []byte) error {
	v, err := ParseUSD(strings.Trim(string(b), `"`))
	*n = v
	return err
}

// UnmarshalText reads a sum in dollars.
func (n *NanoUSD) UnmarshalText(b []byte) error {
	v, err := ParseUSD(string(b))
	*n = v
	return err
}

// ParseUSD reads a sum in dollars: plain digits with at most nine behind the point.
// Providers also write small sums with an exponent.
func ParseUSD(s string) (NanoUSD, error) {
	if strings.ContainsAny(s, "eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f < 0 || f > 1e9 {
			return 0, fmt.Errorf("%q is no sum in US dollars", s)
		}
		return NanoUSD(math.Ceil(f * float64(USD))), nil
	}
	whole, part, _ := strings.Cut(s, ".")
	switch {
	case whole == "" && part == "" || len(part) > 18 || strings.Trim(whole+part, "0123456789") != "":
		return 0, fmt.Errorf("%q is no sum in US dollars: write digits, like 12.50", s)
	case len(whole) > 9:
		return 0, fmt.Errorf("%q is more US dollars than can be counted: at most 999999999", s)
	}
	if len(part) > digits { // what is smaller is rounded up
		v, err := ParseUSD(whole + "." + part[:digits])
		return v + 1, err
	}
	v, err := strconv.ParseInt("0"+whole+part+strings.Repeat("0", digits-len(part)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no sum in US dollars", s)
	}
	return NanoUSD(v), nil
}

// perMillion is the price of tokens at a rate for a million, rounded up. What is
// too much to count is the largest sum there is.
func perMillion(tokens int64, rate NanoUSD) NanoUSD {
	const million = 1_000_000
	if tokens <= 0 || rate <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(tokens), uint64(rate))
	lo, carry := bits.Add64(lo, million-1, 0)
	hi += carry
	if hi >= million {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, million)
	return NanoUSD(min(q, math.MaxInt64))
}

// plus adds without running over.
func plus(a, b NanoUSD) NanoUSD {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
