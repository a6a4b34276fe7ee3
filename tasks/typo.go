package tasks

import "strings"

// Closest returns the known name that unknown was probably meant to be, "" when
// none is close: the same but for case and separators, the beginning of a known
// name ("timeout" of "timeout_sec"), or one slip of the keyboard away, two in a
// long name.
func Closest(unknown string, known []string) string {
	best, bestDistance := "", 3
	for _, k := range known {
		if plain(k) == plain(unknown) || strings.HasPrefix(k, unknown+"_") {
			return k
		}
		allowed := 1
		if min(len(k), len(unknown)) >= 8 {
			allowed = 2
		}
		if d := distance(unknown, k, allowed); d <= allowed && d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

func plain(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours between a and b; above limit the count does not matter.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, last[j]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
