package tasks

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parseSize reads "2G", "512M" or "2048K", fractions and any case allowed, as
// MiB. Harbor knows no other units, so no other is guessed.
func parseSize(s string) (int64, error) {
	text := strings.ToUpper(strings.TrimSpace(s))
	if text == "" {
		return 0, fmt.Errorf("size %q is empty", s)
	}
	digits, unit := text[:len(text)-1], text[len(text)-1]
	factor, ok := map[byte]float64{'G': 1024, 'M': 1, 'K': 1.0 / 1024}[unit]
	if !ok {
		return 0, fmt.Errorf("size %q does not end with K, M or G", s)
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.ContainsAny(digits, "XPN_I") {
		return 0, fmt.Errorf("size %q is not a number followed by K, M or G", s)
	}
	mib := math.Trunc(n * factor)
	if mib < 1 || mib > 1<<40 {
		return 0, fmt.Errorf("size %q is not between 1 MiB and 1 EiB", s)
	}
	return int64(mib), nil
}
