package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Ask is what a request's body asks for, as far as it matters for policy and price.
type Ask struct {
	Model        string
	Stream       bool
	IncludeUsage bool
	MaxOutput    int64 // tokens; 0 is not said
	Choices      int64 // answers asked for, at least 1
	Tier         string
	Searches     int64  // that the provider may make, each at its price
	Previous     string // id of an earlier response that is gone on from
	options      Member // stream_options
	hasOptions   bool
	Refused      string // a key that is not served, and why
	body         []byte
}

// reader of one key of a body.
type reader func(a *Ask, m Member) error

// readers are the keys that are looked at. Two spellings of one thing have one
// canonical name, so that they cannot come together.
func readerOf(key string) (name string, read reader) {
	switch key {
	case "model":
		return key, func(a *Ask, m Member) error { return decode(m, &a.Model) }
	case "stream":
		return key, func(a *Ask, m Member) error { return decode(m, &a.Stream) }
	case "stream_options":
		return key, readOptions
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		return key, readMax
	case "n", "best_of":
		return key, readChoices
	case "service_tier":
		return key, func(a *Ask, m Member) error { return decode(m, &a.Tier) }
	case "previous_response_id":
		return key, func(a *Ask, m Member) error { return decode(m, &a.Previous) }
	case "generationconfig", "generation_config":
		return "generationConfig", readGeneration
	case "models", "fallbacks":
		return key, refuse("other models to fall back to are not served: name one model")
	case "tools":
		return key, readTools
	case "web_search_options", "plugins":
		return key, readSearch
	case "background":
		return key, readBackground
	case "conversation", "cachedcontent", "cached_content":
		return key, refuse("state kept by the provider is shared between trials and not served")
	}
	return "", nil
}

// spelling is how the canonical keys are written.
func spelling(lower string) string {
	switch lower {
	case "generationconfig":
		return "generationConfig"
	case "cachedcontent":
		return "cachedContent"
	}
	return lower
}

// Scan reads a body. Its error is for the client to see and holds nothing of it.
func Scan(body []byte) (Ask, error) {
	a := Ask{Choices: 1, body: body}
	if !utf8.Valid(body) {
		return a, errors.New("the body is not UTF-8")
	}
	var seen [24]string
	n := 0
	err := Members(body, func(m Member) error {
		const longest = 32 // of the keys that are looked at, with room for other spellings
		if len(m.Key) > longest {
			return nil
		}
		lower := fold(m.Key)
		name, read := readerOf(lower)
		if read == nil {
			return nil
		}
		if m.Key != spelling(lower) {
			return fmt.Errorf("the key %s is written differently", spelling(lower))
		}
		for _, s := range seen[:n] {
			if s == name {
				return fmt.Errorf("the key %s comes more than once", spelling(lower))
			}
		}
		if n < len(seen) {
			seen[n] = name
			n++
		}
		return read(&a, m)
	})
	return a, err
}

// fold makes keys that a careless reader takes for the same the same.
func fold(s string) string {
	s = strings.ToLower(s)
	if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return s
	}
	return strings.NewReplacer("ſ", "s", "\u212a", "k").Replace(s)
}

func decode(m Member, into any) error {
	if json.Unmarshal(m.Value, into) != nil {
		return fmt.Errorf("the value of %s has the wrong type", m.Key)
	}
	return nil
}

func refuse(why string) reader {
	return func(a *Ask, m Member) error {
		if string(m.Value) != "null" {
			a.Refused = m.Key + ": " + why
		}
		return nil
	}
}

func readBackground(a *Ask, m Member) error {
	if string(m.Value) == "true" {
		a.Refused = "background: answers that are fetched later are not served"
	}
	return nil
}

func readOptions(a *Ask, m Member) error {
	a.options, a.hasOptions = m, true
	if string(m.Value) == "null" {
		return nil
	}
	var seen bool
	return Members(m.Value, func(o Member) error {
		if !strings.EqualFold(o.Key, "include_usage") {
			return nil
		}
		if seen || o.Key != "include_usage" {
			return errors.New("the key include_usage comes more than once or is written differently")
		}
		seen = true
		return decode(o, &a.IncludeUsage)
	})
}

func readMax(a *Ask, m Member) error {
	n, err := count(m)
	a.MaxOutput = max(a.MaxOutput, n)
	return err
}

func readChoices(a *Ask, m Member) error {
	n, err := count(m)
	a.Choices = max(a.Choices, n)
	return err
}

func readGeneration(a *Ask, m Member) error {
	if string(m.Value) == "null" {
		return nil
	}
	return Members(m.Value, func(g Member) error {
		switch fold(g.Key) {
		case "maxoutputtokens", "max_output_tokens":
			return readMax(a, g)
		case "candidatecount", "candidate_count":
			return readChoices(a, g)
		}
		return nil
	})
}

// count reads a number of tokens or answers; null is 0.
func count(m Member) (int64, error) {
	const most = 1 << 31
	var n *float64
	if err := decode(m, &n); err != nil || n == nil {
		return 0, err
	}
	if *n < 0 || *n > most {
		return 0, fmt.Errorf("the value of %s is out of range", m.Key)
	}
	return int64(*n), nil
}

// WithUsage returns the body with stream_options.include_usage set. All else stays
// byte for byte.
func (a Ask) WithUsage() ([]byte, error) {
	const wanted = `"include_usage":true`
	if !a.hasOptions {
		at := bytes.IndexByte(a.body, '{') + 1
		return splice(a.body, at, at, `"stream_options":{`+wanted+`},`), nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(a.options.Value, &fields); err != nil {
		return nil, errShape
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	fields["include_usage"] = json.RawMessage("true")
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, errShape
	}
	return splice(a.body, a.options.Start, a.options.End, string(text)), nil
}

func splice(b []byte, start, end int, text string) []byte {
	out := make([]byte, 0, len(b)+len(text))
	out = append(out, b[:start]...)
	out = append(out, text...)
	return append(out, b[end:]...)
}

// HasRemoteMedia reports whether a body names something to fetch: a value under a
// key that ends in url or uri, of another scheme than data.
func HasRemoteMedia(body []byte) bool {
	if !mayNameURL(body) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	key := ""
	for {
		t, err := d.Token()
		if err != nil {
			return false
		}
		s, ok := t.(string)
		if !ok {
			continue
		}
		lower := strings.ToLower(key)
		if (strings.HasSuffix(lower, "url") || strings.HasSuffix(lower, "uri")) && isRemote(s) {
			return true
		}
		key = s
	}
}

// mayNameURL is the quick look that most bodies need: a key that ends like those,
// or an escape that may hide one.
func mayNameURL(body []byte) bool {
	for i := 0; ; i++ {
		n := bytes.IndexByte(body[i:], '"')
		if n < 0 {
			return bytes.Contains(body, []byte(`\u`))
		}
		if i += n; i < 2 {
			continue
		}
		if r, l := body[i-2]|' ', body[i-1]|' '; r == 'r' && (l == 'l' || l == 'i') {
			return true
		}
	}
}

func isRemote(s string) bool {
	scheme, _, ok := strings.Cut(strings.ToLower(strings.TrimSpace(s)), ":")
	return ok && scheme != "data" && len(scheme) < 8
}
