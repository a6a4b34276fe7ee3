// Package redact keeps secrets out of what is written: values that are known are
// replaced, plain and in the encodings in which programs print them. It works on
// bytes and touches nothing else in them.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Mark stands where a secret was.
const Mark = "[REDACTED]"

// shortest is the shortest value that counts as a secret: shorter ones occur by
// chance.
const shortest = 6

// Redactor knows secrets. The nil Redactor knows none. It does not change and is
// safe for concurrent use.
type Redactor struct {
	forms [][]byte // longest first
}

// New returns a Redactor for values, nil when none of them is worth hiding: empty
// and short ones, booleans and small numbers are not.
func New(values ...string) *Redactor {
	var forms []string
	for _, v := range values {
		if worthHiding(v) {
			forms = append(forms, encodings(v)...)
		}
	}
	if len(forms) == 0 {
		return nil
	}
	slices.Sort(forms)
	forms = slices.Compact(forms)
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	r := &Redactor{}
	for _, f := range forms {
		r.forms = append(r.forms, []byte(f))
	}
	return r
}

func worthHiding(v string) bool {
	if len(v) < shortest {
		return false
	}
	const number = 12 // digits that are no count, date or port any more
	if strings.Trim(v, "0123456789") == "" && len(v) < number {
		return false
	}
	return !slices.Contains([]string{"true", "false", "enabled", "disabled"}, strings.ToLower(v))
}

// encodings are the forms in which a value may be printed.
func encodings(v string) []string {
	out := append(Escapes(v),
		v, url.QueryEscape(v),
		base64.StdEncoding.EncodeToString([]byte(v)), base64.RawStdEncoding.EncodeToString([]byte(v)),
		base64.URLEncoding.EncodeToString([]byte(v)), base64.RawURLEncoding.EncodeToString([]byte(v)))
	if b, err := json.Marshal(v); err == nil {
		out = append(out, string(b[1:len(b)-1]))
	}
	return out
}

// Bytes returns b without secrets. b itself is returned when it has none.
func (r *Redactor) Bytes(b []byte) []byte {
	if r == nil {
		return b
	}
	for _, f := range r.forms {
		if bytes.Contains(b, f) {
			b = bytes.ReplaceAll(b, f, []byte(Mark))
		}
	}
	return b
}

// held is how many bytes at the end of b may be the beginning of a secret.
func (r *Redactor) held(b []byte) int {
	most := 0
	for _, f := range r.forms {
		most = max(most, Begun(b, f))
	}
	return most
}

// Writer passes on to w what is written, without secrets, however they are cut
// into writes. It holds back only what may be the beginning of one; Close
// delivers that and closes w. The nil Redactor returns w.
func (r *Redactor) Writer(w io.WriteCloser) io.WriteCloser {
	if r == nil {
		return w
	}
	return &writer{r: r, w: w}
}

type writer struct {
	r    *Redactor
	w    io.WriteCloser
	rest []byte
}

func (w *writer) Write(b []byte) (int, error) {
	text := w.r.Bytes(append(w.rest, b...))
	keep := w.r.held(text)
	if _, err := w.w.Write(text[:len(text)-keep]); err != nil {
		return 0, err
	}
	w.rest = append([]byte(nil), text[len(text)-keep:]...)
	return len(b), nil
}

func (w *writer) Close() error {
	_, err := w.w.Write(w.rest)
	return errors.Join(err, w.w.Close())
}

// chunk is how much of a file is looked at once.
const chunk = 256 << 10

// File removes secrets from a file, in place of the old content. A file without
// any is not written. The caller makes sure that it is a regular one.
func (r *Redactor) File(root *os.Root, name string) error {
	if r == nil {
		return nil
	}
	found, err := r.in(root, name)
	if err != nil || !found {
		return err
	}
	src, err := root.Open(name)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	tmp := name + ".redacting"
	dst, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fi.Mode().Perm())
	if err != nil {
		return err
	}
	w := r.Writer(dst)
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, src, make([]byte, chunk))
	if err = errors.Join(err, w.Close()); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return root.Rename(tmp, name)
}

// in reports whether a file holds a secret.
func (r *Redactor) in(root *os.Root, name string) (bool, error) {
	f, err := root.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	probe := &finder{r: r}
	_, err = io.CopyBuffer(struct{ io.Writer }{probe}, f, make([]byte, chunk))
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

var errFound = errors.New("a secret was found")

type finder struct {
	r    *Redactor
	rest []byte
}

func (f *finder) Write(b []byte) (int, error) {
	text := append(f.rest, b...)
	for _, form := range f.r.forms {
		if bytes.Contains(text, form) {
			return 0, errFound
		}
	}
	f.rest = append([]byte(nil), text[len(text)-f.r.held(text):]...)
	return len(b), nil
}
