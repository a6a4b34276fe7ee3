package wire

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of how long a provider may ask to be left alone. A quota of a day is
// believed longer than a limit of a minute.
const (
	longestWait  = 5 * time.Minute
	longestQuota = 24 * time.Hour
)

// RetryAfter returns how long an answer asks to wait: the latest of what it says,
// within bounds. Nonsense counts as not said.
func RetryAfter(h http.Header, body []byte, now time.Time) (time.Duration, bool) {
	var longest time.Duration
	found := false
	add := func(d time.Duration, ok bool, most time.Duration) {
		if ok && d >= 0 {
			longest, found = max(longest, min(d, most)), true
		}
	}
	d, ok := units(h.Get("Retry-After-Ms"), time.Millisecond)
	add(d, ok, longestWait)
	d, ok = units(h.Get("Retry-After"), time.Second)
	if !ok {
		d, ok = until(h.Get("Retry-After"), now)
	}
	add(d, ok, longestWait)
	if h.Get("Anthropic-Ratelimit-Unified-Status") == "rejected" {
		d, ok = epoch(h.Get("Anthropic-Ratelimit-Unified-Reset"), now)
		add(d, ok, longestQuota)
	}
	d, ok = retryInfo(body)
	add(d, ok, longestWait)
	return longest, found
}

// Exhausted returns how long the limits that an answer reports are used up. A
// negative or unreadable number is unknown, and unknown is no limit.
func Exhausted(h http.Header, now time.Time) (time.Duration, bool) {
	var longest time.Duration
	for _, names := range [...][2]string{ // as net/http writes them
		{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
		{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
		{"X-Ratelimit-Remaining-Input-Tokens", "X-Ratelimit-Reset-Input-Tokens"},
		{"X-Ratelimit-Remaining-Output-Tokens", "X-Ratelimit-Reset-Output-Tokens"},
	} {
		if left := h[names[0]]; len(left) == 0 || left[0] != "0" {
			continue
		}
		if d, ok := resetIn(h.Get(names[1]), now); ok {
			longest = max(longest, min(d, longestWait))
		}
	}
	return longest, longest > 0
}

// resetIn reads the three forms of a time of reset: a date, a duration, seconds.
func resetIn(s string, now time.Time) (time.Duration, bool) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.Sub(now), t.After(now)
	}
	if d, ok := units(s, time.Second); ok {
		return d, true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d > 0
}

// units reads a number of units.
func units(s string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || f < 0 {
		return 0, false
	}
	return time.Duration(min(f, longestQuota.Seconds()*1e3) * float64(unit)), true
}

func until(s string, now time.Time) (time.Duration, bool) {
	t, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return max(0, t.Sub(now)), true
}

func epoch(s string, now time.Time) (time.Duration, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, false
	}
	return time.Unix(n, 0).Sub(now), true
}

// retryInfo reads Google's detail of an error.
func retryInfo(body []byte) (time.Duration, bool) {
	if len(body) == 0 || !has(body, "RetryInfo") {
		return 0, false
	}
	var doc struct {
		Error struct {
			Details []struct {
				Delay string `json:"retryDelay"`
			} `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return 0, false
	}
	for _, d := range doc.Error.Details {
		if delay, err := time.ParseDuration(d.Delay); err == nil {
			return delay, true
		}
	}
	return 0, false
}
