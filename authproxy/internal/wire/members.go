package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// deepest is how deep a body may nest.
const deepest = 64

// Member is one key of an object with the text of its value.
type Member struct {
	Key        string
	Value      []byte
	Start, End int // of Value
}

// errShape is all that is said about a body that is no JSON: its text is not ours
// to repeat.
var errShape = errors.New("the body is not one JSON object")

// Members calls visit for each member of the object that body is, in order. It
// looks at what is nested only as far as needed to find its end, which makes it
// some hundred times as fast as decoding; but a body that programs could divide
// differently (brackets that do not match, comments, other quotes, text behind the
// object) is an error.
func Members(body []byte, visit func(Member) error) error {
	i := space(body, 0)
	if i == len(body) || body[i] != '{' {
		return errShape
	}
	i = space(body, i+1)
	if i < len(body) && body[i] == '}' {
		return theEnd(body, i+1)
	}
	for {
		m, next, err := member(body, i)
		if err != nil {
			return err
		}
		if err := visit(m); err != nil {
			return err
		}
		next = space(body, next)
		switch {
		case next == len(body):
			return errShape
		case body[next] == '}':
			return theEnd(body, next+1)
		case body[next] != ',':
			return errShape
		}
		i = space(body, next+1)
	}
}

func theEnd(body []byte, i int) error {
	if space(body, i) != len(body) {
		return errShape
	}
	return nil
}

// member reads key, colon and value at i.
func member(body []byte, i int) (Member, int, error) {
	if i >= len(body) || body[i] != '"' {
		return Member{}, 0, errShape
	}
	end, err := quoted(body, i)
	if err != nil {
		return Member{}, 0, err
	}
	key, err := unquote(body[i:end])
	if err != nil {
		return Member{}, 0, err
	}
	i = space(body, end)
	if i == len(body) || body[i] != ':' {
		return Member{}, 0, errShape
	}
	start := space(body, i+1)
	end, err = value(body, start)
	if err != nil {
		return Member{}, 0, err
	}
	return Member{Key: key, Value: body[start:end], Start: start, End: end}, end, nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// quoted returns the end of the string that begins at i.
func quoted(b []byte, i int) (int, error) {
	for j := i + 1; ; {
		n := bytes.IndexByte(b[j:], '"')
		if n < 0 {
			return 0, errShape
		}
		slashes := 0
		for k := j + n - 1; k > i && b[k] == '\\'; k-- {
			slashes++
		}
		j += n + 1
		if slashes%2 == 0 {
			return j, nil
		}
	}
}

func unquote(b []byte) (string, error) {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b[1 : len(b)-1]), nil
	}
	var s string
	if json.Unmarshal(b, &s) != nil {
		return "", errShape
	}
	return s, nil
}

// value returns the end of the value that begins at i.
func value(b []byte, i int) (int, error) {
	if i == len(b) {
		return 0, errShape
	}
	switch b[i] {
	case '"':
		return quoted(b, i)
	case '{', '[':
		return nested(b, i)
	}
	j := i
	for j < len(b) && isScalar(b[j]) {
		j++
	}
	if j == i || !json.Valid(b[i:j]) {
		return 0, errShape
	}
	return j, nil
}

func isScalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// nested returns the end of the object or array that begins at i.
func nested(b []byte, i int) (int, error) {
	var open [deepest]byte
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			end, err := quoted(b, i)
			if err != nil {
				return 0, err
			}
			i = end
			continue
		case '{', '[':
			if depth == deepest {
				return 0, fmt.Errorf("the body nests deeper than %d levels", deepest)
			}
			open[depth] = c + 2 // '[' and '{' lie two before their partners
			depth++
		case '}', ']':
			depth--
			if open[depth] != c {
				return 0, errShape
			}
			if depth == 0 {
				return i + 1, nil
			}
		case ' ', '\n', '\t', '\r', ',', ':':
		default:
			if !isScalar(c) {
				return 0, errShape
			}
		}
		i++
	}
	return 0, errShape
}
