package stats

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"harborgate/trials"
)

// Unknown is how null prints. It is never 0.
const Unknown = "–"

// MeanText prints a mean, or a share, to three decimals.
func MeanText(x *float64) string {
	if x == nil {
		return Unknown
	}
	return fmt.Sprintf("%.3f", *x)
}

// Text prints the mean with its standard error. Where verdicts show no spread
// there is none: their interval says what is known.
func (e Estimate) Text() string {
	switch {
	case e.StandardError == nil:
		return MeanText(e.Mean)
	case *e.StandardError < 0.0005:
		return MeanText(e.Mean) + " ± <0.001"
	}
	return MeanText(e.Mean) + " ± " + MeanText(e.StandardError)
}

// Text prints where the mean plausibly is.
func (i *Interval) Text() string {
	if i == nil {
		return Unknown
	}
	return fmt.Sprintf("%.3f to %.3f", i.Low, i.High)
}

// PText prints a probability to two significant digits.
func PText(p float64) string {
	switch {
	case math.IsNaN(p):
		return "p = " + Unknown
	case p < 0.001:
		return "p < 0.001"
	case p > 0.995:
		return "p = 1.0"
	}
	return "p = " + significant(p, 0)
}

// significant prints x with two significant digits, and at least so many decimals.
func significant(x float64, least int) string {
	decimals := least
	if x != 0 {
		decimals = max(least, 1-int(math.Floor(math.Log10(math.Abs(x)))))
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// MoneyText prints US dollars: cents, and at least two significant digits.
func MoneyText(x *float64) string {
	switch {
	case x == nil:
		return Unknown
	case *x < 0.1:
		return "$" + significant(*x, 2)
	}
	return "$" + strconv.FormatFloat(*x, 'f', 2, 64)
}

// CountText prints a large number, of tokens say, to three significant digits:
// 1.23M.
func CountText(x *float64) string {
	if x == nil {
		return Unknown
	}
	n := math.Round(*x)
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		// What would print as 1000 of a unit is 1 of the next.
		if n < unit.size*0.9995 {
			continue
		}
		n /= unit.size
		return strconv.FormatFloat(n, 'f', max(0, 2-int(math.Log10(max(n, 1)*1.0005))), 64) + unit.name
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// SecondsText prints seconds as TimeText does.
func SecondsText(sec *float64) string {
	if sec == nil {
		return Unknown
	}
	return TimeText(time.Duration(*sec * float64(time.Second)))
}

// TimeText prints a duration as 1.2s, 42s, 1m 42s or 3h 5m 12s.
func TimeText(d time.Duration) string {
	if tenths := d.Round(100 * time.Millisecond); tenths < 10*time.Second {
		return fmt.Sprintf("%.1fs", tenths.Seconds())
	}
	d = d.Round(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h > 0:
		return fmt.Sprintf("%dh %dm %ds", h, m, s)
	case m > 0:
		return fmt.Sprintf("%dm %ds", m, s)
	}
	return fmt.Sprintf("%ds", s)
}

// Text prints an amount with a printer of its kind: "≥" where there was more.
func (a Amount) Text(printed func(*float64) string) string {
	if a.AtLeast {
		return "≥ " + printed(a.Sum)
	}
	return printed(a.Sum)
}

// Words say the coverage, which stands beside every mean: "86 of 89 graded", and
// then what became of the others.
func (c Counts) Words() []string {
	return append([]string{fmt.Sprintf("%d of %d graded", c.Graded, c.Planned)}, c.Missing()...)
}

// Missing says what became of trials without verdict: "2 infrastructure".
func (c Counts) Missing() []string {
	var out []string
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, strconv.Itoa(n)+" "+what)
		}
	}
	for _, b := range trials.Blames() {
		add(c.Ungraded[b], string(b))
	}
	add(c.Unblamed, "without verdict")
	add(c.Installed, "installed")
	add(c.Cancelled, "cancelled")
	add(c.Pending, "pending")
	return out
}

// Words say the coverage of a row that may have more trials than it knows of.
func (r *Row) Words() []string {
	words := r.Counts.Words()
	if r.AtLeast {
		words[0] = strings.Replace(words[0], " of ", " of at least ", 1)
	}
	return words
}

// Title names the row: data set and arm.
func (k Key) Title() string { return k.Dataset + " · " + k.Arm() }

// Arm names agent, model and settings.
func (k Key) Arm() string {
	parts := []string{k.Agent}
	for _, s := range []string{k.Model, k.Settings} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}

// DifferenceText prints a difference with its sign.
func DifferenceText(x *float64) string {
	switch {
	case x == nil:
		return Unknown
	case math.Abs(*x) < 0.0005:
		return "0.000"
	}
	return fmt.Sprintf("%+.3f", *x)
}
