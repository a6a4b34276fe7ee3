package results

import (
	"bytes"
	"errors"
	"fmt"
)

// errNotWhole is a document that ends too early, or is no object.
var errNotWhole = errors.New("it is no whole JSON object")

// members calls f with the members of a JSON object, in order; values are as they
// are written. Values are skipped, not checked: most of a result need not be
// understood to be listed, and finding its parts is a fraction of parsing it.
func members(b []byte, f func(key string, value []byte) error) error {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errNotWhole
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return ended(b, i+1)
	}
	for {
		key, value, next, err := member(b, i)
		if err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
		i = space(b, next)
		switch {
		case i < len(b) && b[i] == ',':
			i = space(b, i+1)
		case i < len(b) && b[i] == '}':
			return ended(b, i+1)
		default:
			return errNotWhole
		}
	}
}

// ended wants nothing behind the object.
func ended(b []byte, i int) error {
	if i = space(b, i); i < len(b) {
		return fmt.Errorf("%w: there is more behind its end", errNotWhole)
	}
	return nil
}

// member reads "key": value at i. Keys with escapes are taken as they are
// written: none that is looked for has one.
func member(b []byte, i int) (key string, value []byte, next int, err error) {
	if i >= len(b) || b[i] != '"' {
		return "", nil, 0, errNotWhole
	}
	end := skipString(b, i)
	if end < 0 {
		return "", nil, 0, errNotWhole
	}
	colon := space(b, end)
	if colon >= len(b) || b[colon] != ':' {
		return "", nil, 0, errNotWhole
	}
	start := space(b, colon+1)
	next = skipValue(b, start)
	if next <= start {
		return "", nil, 0, errNotWhole
	}
	return string(b[i+1 : end-1]), b[start:next], next, nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string at i, or -1.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		back := i
		for b[back-1] == '\\' {
			back--
		}
		if (i-back)%2 == 0 {
			return i + 1
		}
	}
	return -1
}

// skipValue returns the index behind the value at i, or -1.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	for start := i; ; i++ {
		if i >= len(b) {
			return -1 // a scalar is never the end of a document that is an object
		}
		switch b[i] {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		case '"', '{', '[', ':':
			return start
		}
	}
}

// skipNested counts brackets outside of strings.
func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		}
		i++
	}
	return -1
}
