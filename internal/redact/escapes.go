package redact

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

// Escapes are the forms in which programs write a value sign by sign: hex, percent
// escapes and those of JSON, each in small and in capital digits, with all signs
// escaped or only those that some rule names. v may be among them. Forms that mix
// rules are not.
func Escapes(v string) []string {
	all := func(byte) bool { return true }
	signs := func(c byte) bool { return !alphanumeric(c) }
	reserved := func(c byte) bool { return signs(c) && !strings.ContainsRune("-_.~", rune(c)) }
	markup := func(c byte) bool { return strings.ContainsRune("<>&'\"`+", rune(c)) }
	assigned := func(c byte) bool { return strings.ContainsRune("<>&'=", rune(c)) }
	out := []string{hex.EncodeToString([]byte(v)), fmt.Sprintf("%X", v), url.PathEscape(v), strings.ReplaceAll(v, "/", `\/`)}
	for format, rules := range map[string][]func(byte) bool{
		"%%%02x": {all, signs, reserved},
		`\u%04x`: {all, signs, markup, assigned},
		"%%%02X": {all, signs, reserved},
		`\u%04X`: {all, signs, markup, assigned},
	} {
		for _, rule := range rules {
			out = append(out, escaped(v, format, rule))
		}
	}
	return out
}

func escaped(v, format string, rule func(byte) bool) string {
	var out strings.Builder
	for i := range len(v) {
		if rule(v[i]) {
			fmt.Fprintf(&out, format, v[i])
		} else {
			out.WriteByte(v[i])
		}
	}
	return out.String()
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Begun is how many bytes at the end of b are the beginning of form, and not all of
// it. The form has at least two bytes.
func Begun(b, form []byte) int {
	tail := b[max(0, len(b)-len(form)+1):]
	for {
		i := bytes.IndexByte(tail, form[0])
		if i < 0 {
			return 0
		}
		if tail = tail[i:]; len(tail) == 1 || tail[1] == form[1] && bytes.HasPrefix(form, tail) {
			return len(tail)
		}
		tail = tail[1:]
	}
}
