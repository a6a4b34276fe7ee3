package authproxy

import (
	"bytes"
	"slices"

	"harborgate/internal/redact"
)

// scrubber masks secrets, however they are cut into pieces. A mask is as long as
// what it hides, so the length of an answer does not change.
type scrubber struct {
	forms [][]byte
	marks [][]byte // of which each form has one
	rest  []byte   // may be the beginning of a secret
	hits  int
}

func newScrubber(forms, marks [][]byte) *scrubber { return &scrubber{forms: forms, marks: marks} }

// marksOf are pieces of secrets by which they are found, each once: short, and of what
// is rare in answers, because those are quickly searched for.
func marksOf(forms [][]byte) [][]byte {
	var out [][]byte
	for _, f := range forms {
		m := markOf(f)
		if !slices.ContainsFunc(out, func(o []byte) bool { return bytes.Equal(o, m) }) {
			out = append(out, m)
		}
	}
	return out
}

// markOf is a part of the first escape of a form; without one, a piece that begins
// with a capital or at least a digit.
func markOf(form []byte) []byte {
	const long = 8
	for _, part := range []struct {
		escape      string
		begin, long int
	}{{`\u00`, 2, 3}, {`\/`, 0, 2}, {"%", 0, 2}} {
		if i := bytes.Index(form, []byte(part.escape)); i >= 0 {
			return form[i+part.begin : min(i+part.begin+part.long, len(form))]
		}
	}
	last := max(0, len(form)-long)
	for _, rare := range []string{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"} {
		if i := bytes.IndexAny(form[:last+1], rare); i >= 0 {
			return form[i:min(i+long, len(form))]
		}
	}
	return form[:min(long, len(form))]
}

// mayHold reports whether a secret may be in p, whole.
func (s *scrubber) mayHold(p []byte) bool {
	return slices.ContainsFunc(s.marks, func(m []byte) bool { return bytes.Contains(p, m) })
}

// clean returns what can be passed on. It is p itself in nearly all cases.
func (s *scrubber) clean(p []byte) []byte {
	if len(s.rest) > 0 {
		p = append(s.rest, p...)
		s.rest = nil
	}
	if s.mayHold(p) {
		p = s.mask(p)
	}
	if n := s.held(p); n > 0 {
		s.rest = bytes.Clone(p[len(p)-n:])
		p = p[:len(p)-n]
	}
	return p
}

// mask returns p without secrets. It changes a copy.
func (s *scrubber) mask(p []byte) []byte {
	own := false
	for _, f := range s.forms {
		if !bytes.Contains(p, f) {
			continue
		}
		if !own {
			p, own = bytes.Clone(p), true
		}
		s.hits++
		mask := bytes.Repeat([]byte("*"), len(f))
		for i := bytes.Index(p, f); i >= 0; i = bytes.Index(p, f) {
			copy(p[i:], mask)
		}
	}
	return p
}

// held is how many bytes at the end of p may be the beginning of a secret. No
// secret holds a line end, and events end with one, so streams are not held up.
func (s *scrubber) held(p []byte) int {
	if len(p) == 0 || p[len(p)-1] == '\n' {
		return 0
	}
	most := 0
	for _, f := range s.forms {
		most = max(most, redact.Begun(p, f))
	}
	return most
}
