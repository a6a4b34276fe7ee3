package authproxy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"

	"harborgate/internal/redact"
)

// Secret is a credential. However it is printed, logged or encoded, it shows
// nothing of itself.
type Secret struct{ value string }

// hidden is what a secret prints as.
const hidden = "[redacted]"

// String hides the secret.
func (Secret) String() string { return hidden }

// GoString hides the secret.
func (Secret) GoString() string { return hidden }

// Format hides the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalJSON hides the secret.
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(hidden) }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// forms are what the secret looks like in places that might repeat it: plain,
// escaped for a URL or for JSON, in hex, and in base64 as a part of any text.
func (s Secret) forms() [][]byte {
	out := append(redact.Escapes(s.value), s.value, url.QueryEscape(s.value))
	for _, before := range []string{"", "x", "xx"} {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte(before + s.value))
			skip := (len(before)*8 + 5) / 6 // characters that depend on what is before
			whole := len(text) - 1          // the last one depends on what is behind
			out = append(out, text[skip:whole])
		}
	}
	slices.Sort(out)
	var forms [][]byte
	for _, f := range slices.Compact(out) {
		forms = append(forms, []byte(f))
	}
	return forms
}
