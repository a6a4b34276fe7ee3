package tools

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// parseMode reads an octal or symbolic mode.
func parseMode(s string, old fs.FileMode) (fs.FileMode, error) {
	if n, err := strconv.ParseUint(s, 8, 12); err == nil {
		return unixMode(uint32(n)), nil
	}
	mode := old
	for part := range strings.SplitSeq(s, ",") {
		at := strings.IndexAny(part, "+-=")
		if at < 0 {
			return 0, fmt.Errorf("invalid mode: %q", s)
		}
		var bits fs.FileMode
		for _, r := range part[at+1:] {
			bits |= map[rune]fs.FileMode{'r': 4, 'w': 2, 'x': 1, 'X': 1}[r]
		}
		var mask fs.FileMode
		for who, shift := range map[string]int{"u": 6, "g": 3, "o": 0} {
			if at == 0 || strings.ContainsAny(part[:at], who+"a") {
				mask |= bits << shift
				if part[at] == '=' {
					mode &^= 7 << shift
				}
			}
		}
		if part[at] == '-' {
			mode &^= mask
		} else {
			mode |= mask
		}
	}
	return mode, nil
}

func unixMode(n uint32) fs.FileMode {
	m := fs.FileMode(n & 0o777)
	for bit, mode := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			m |= mode
		}
	}
	return m
}
