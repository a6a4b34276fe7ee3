package redact

import (
	"bytes"
	"maps"
	"slices"
)

// Detector finds secrets in what passes through it: values that are known, in the
// encodings of a Redactor, and keys that show by their shape whose they are. It does
// not change and is safe for concurrent use; a Probe is not.
type Detector struct {
	needles [1 << 16][]needle // by their first two bytes: most bytes start none
	longest int
}

// needle is a text, and how many characters of keys must follow it.
type needle struct {
	text []byte
	tail int
	what string
	bars bool // the key may have - and _
}

// shapes are the beginnings of keys of model providers and package registries, with
// how many characters follow at least. They are so long that none occurs by chance.
var shapes = []struct {
	text string
	tail int
	what string
	bars bool
}{
	{"sk-ant-api03-", 80, "a key of Anthropic", true},
	{"sk-ant-oat01-", 80, "a token of Anthropic", true},
	{"sk-proj-", 80, "a key of OpenAI", true},
	{"sk-svcacct-", 80, "a key of OpenAI", true},
	{"sk-or-v1-", 60, "a key of OpenRouter", false},
	{"gsk_", 48, "a key of Groq", false},
	{"xai-", 72, "a key of xAI", false},
	{"npm_", 36, "a token of npm", false},
	{"pypi-AgEIcHlwaS5vcmc", 50, "a token of PyPI", true},
}

// NewDetector knows values, those that a Redactor would hide, and shapes. With each value
// is the name of the variable that has it, "" when it is none's: that may be said.
func NewDetector(values map[string]string) *Detector {
	d := &Detector{}
	for _, value := range slices.Sorted(maps.Keys(values)) {
		what := "a known secret"
		if name := values[value]; name != "" {
			what += " (the value of " + name + ")"
		}
		if r := New(value); r != nil {
			for _, form := range r.forms {
				d.add(needle{text: form, what: what})
			}
		}
	}
	for _, s := range shapes {
		d.add(needle{[]byte(s.text), s.tail, s.what, s.bars})
	}
	return d
}

func (d *Detector) add(n needle) {
	i := int(n.text[0])<<8 | int(n.text[1])
	d.needles[i] = append(d.needles[i], n)
	d.longest = max(d.longest, len(n.text)+n.tail)
}

// Probe looks at one stream, however that is cut into writes.
type Probe struct {
	d    *Detector
	rest []byte
	// Found says what was found first, never its value; "" is nothing.
	Found string
}

// Probe starts a stream.
func (d *Detector) Probe() *Probe { return &Probe{d: d} }

// Write never fails.
func (p *Probe) Write(b []byte) (int, error) {
	if p.Found != "" {
		return len(b), nil
	}
	text := append(p.rest, b...)
	p.Found = p.d.in(text)
	p.rest = append(p.rest[:0:0], text[max(0, len(text)-p.d.longest+1):]...)
	return len(b), nil
}

func (d *Detector) in(text []byte) string {
	for i := 0; i+1 < len(text); i++ {
		for _, n := range d.needles[int(text[i])<<8|int(text[i+1])] {
			if bytes.HasPrefix(text[i:], n.text) && n.followed(text[i+len(n.text):]) {
				return n.what
			}
		}
	}
	return ""
}

// followed reports whether text goes on with enough characters of a key.
func (n needle) followed(text []byte) bool {
	if len(text) < n.tail {
		return false
	}
	for _, c := range text[:n.tail] {
		if !alphanumeric(c) && (!n.bars || c != '-' && c != '_') {
			return false
		}
	}
	return true
}
