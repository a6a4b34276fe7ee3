package tools

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

func textTools() map[string]tool {
	return map[string]tool{
		"cat": cat, "head": head, "tail": tail, "wc": wc, "grep": grep, "tr": tr, "sort": sortLines, "uniq": uniq,
		"cut": cut, "tee": tee, "seq": seq, "yes": yes, "cmp": cmp, "diff": cmp, "base64": base64Tool,
		"md5sum":    func(c *call) int { return sum(c, md5.New) },
		"sha256sum": func(c *call) int { return sum(c, sha256.New) },
	}
}

func cat(c *call) int {
	_, names, err := c.parse("u")
	if err != nil {
		return c.usage(err)
	}
	// Unbuffered: what arrives goes out before more is waited for.
	return c.each(names, func(_ string, r io.Reader) error {
		_, err := io.Copy(descriptor{c.p, 1}, r)
		return err
	})
}

// lineCount takes "-5" as "-n 5".
func (c *call) lineCount() {
	if len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		if _, err := strconv.Atoi(c.args[0][1:]); err == nil {
			c.args[0] = "-n" + c.args[0][1:]
		}
	}
}

var errEnough = errors.New("enough")

func head(c *call) int {
	c.lineCount()
	opt, names, err := c.parse("n:c:q")
	if err != nil {
		return c.usage(err)
	}
	count, err := opt.number('c', -1)
	if err != nil {
		return c.usage(err)
	}
	lines, err := opt.number('n', 10)
	if err != nil {
		return c.usage(err)
	}
	return c.each(names, func(_ string, r io.Reader) error {
		if count >= 0 {
			_, err := io.Copy(descriptor{c.p, 1}, io.LimitReader(r, count))
			return err
		}
		left := lines
		if left <= 0 {
			return nil
		}
		err := c.lines(r, func(line string) error {
			_, _ = fmt.Fprintln(c.out, line)
			if left--; left == 0 {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
}

func tail(c *call) int {
	c.lineCount()
	opt, names, err := c.parse("n:c:fq")
	if err != nil {
		return c.usage(err)
	}
	if opt.has('f') {
		return c.forever()
	}
	if opt.has('c') {
		return c.tailBytes(opt, names)
	}
	from := strings.HasPrefix(opt['n'], "+")
	n, err := opt.number('n', 10)
	if err != nil {
		return c.usage(err)
	}
	return c.each(names, func(_ string, r io.Reader) error {
		var kept []string
		err := c.lines(r, func(line string) error {
			kept = append(kept, line)
			if !from && int64(len(kept)) > n {
				kept = kept[1:]
			}
			return nil
		})
		if from {
			kept = kept[min(max(int(n)-1, 0), len(kept)):]
		}
		for _, line := range kept {
			_, _ = fmt.Fprintln(c.out, line)
		}
		return err
	})
}

func (c *call) tailBytes(opt flags, names []string) int {
	n, err := opt.number('c', 0)
	if err != nil {
		return c.usage(err)
	}
	return c.each(names, func(_ string, r io.Reader) error {
		all, err := c.slurp(r)
		_, _ = c.out.Write(all[max(0, len(all)-int(n)):])
		return err
	})
}

func wc(c *call) int {
	opt, names, err := c.parse("lwcm")
	if err != nil {
		return c.usage(err)
	}
	if len(opt) == 0 {
		opt = flags{'l': "", 'w': "", 'c': ""}
	}
	return c.each(names, func(name string, r io.Reader) error {
		counts, err := count(r)
		var out []string
		for i, letter := range []byte("lwc") {
			if opt.has(letter) || letter == 'c' && opt.has('m') {
				out = append(out, strconv.FormatInt(counts[i], 10))
			}
		}
		if name != "-" {
			out = append(out, name)
		}
		_, _ = fmt.Fprintln(c.out, strings.Join(out, " "))
		return err
	})
}

// count returns lines, words and bytes.
func count(r io.Reader) (counts [3]int64, err error) {
	b := make([]byte, 32<<10)
	inWord := false
	for {
		n, err := r.Read(b)
		counts[2] += int64(n)
		for _, ch := range b[:n] {
			space := ch == ' ' || ch >= '\t' && ch <= '\r'
			if ch == '\n' {
				counts[0]++
			}
			if !space && !inWord {
				counts[1]++
			}
			inWord = !space
		}
		if errors.Is(err, io.EOF) {
			return counts, nil
		}
		if err != nil {
			return counts, err
		}
	}
}

func sortLines(c *call) int {
	opt, names, err := c.parse("nrufk:t:")
	if err != nil {
		return c.usage(err)
	}
	var all []string
	code := c.each(names, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) error {
			c.p.Charge(int64(len(line)))
			all = append(all, line)
			return nil
		})
	})
	less := func(a, b string) bool { return a < b }
	if opt.has('n') {
		less = func(a, b string) bool { return leadingNumber(a) < leadingNumber(b) }
	}
	sort.SliceStable(all, func(i, j int) bool {
		if opt.has('r') {
			i, j = j, i
		}
		return less(all[i], all[j])
	})
	if opt.has('u') {
		all = slices.Compact(all)
	}
	for _, line := range all {
		_, _ = fmt.Fprintln(c.out, line)
	}
	return code
}

func leadingNumber(s string) float64 {
	fields := strings.Fields(s)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseFloat(fields[0], 64)
	return n
}

func uniq(c *call) int {
	opt, names, err := c.parse("cdu")
	if err != nil {
		return c.usage(err)
	}
	last, times := "", 0
	flush := func() {
		switch {
		case times == 0, opt.has('d') && times < 2, opt.has('u') && times > 1:
		case opt.has('c'):
			_, _ = fmt.Fprintf(c.out, "%7d %s\n", times, last)
		default:
			_, _ = fmt.Fprintln(c.out, last)
		}
	}
	code := c.each(names, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) error {
			if times > 0 && line != last {
				flush()
				times = 0
			}
			last = line
			times++
			return nil
		})
	})
	flush()
	return code
}

func tee(c *call) int {
	opt, names, err := c.parse("a")
	if err != nil {
		return c.usage(err)
	}
	writers := []io.Writer{descriptor{c.p, 1}}
	mode := syscall.O_TRUNC
	if opt.has('a') {
		mode = syscall.O_APPEND
	}
	for _, name := range names {
		fd, err := c.p.Open(name, syscall.O_WRONLY|syscall.O_CREAT|mode, 0o666)
		if err != nil {
			return c.failf("%s: %v", name, cause(err))
		}
		writers = append(writers, descriptor{c.p, fd})
	}
	if _, err := io.Copy(io.MultiWriter(writers...), descriptor{c.p, 0}); err != nil {
		return c.failf("%v", err)
	}
	return 0
}

func base64Tool(c *call) int {
	opt, names, err := c.parse("dw:i")
	if err != nil {
		return c.usage(err)
	}
	return c.each(names, func(_ string, r io.Reader) error {
		all, err := c.slurp(r)
		if err != nil {
			return err
		}
		if opt.has('d') {
			plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(all)), ""))
			_, _ = c.out.Write(plain)
			return err
		}
		coded := base64.StdEncoding.EncodeToString(all)
		for width := 76; !opt.has('w') && len(coded) > width; coded = coded[width:] {
			_, _ = fmt.Fprintln(c.out, coded[:width])
		}
		_, _ = c.out.WriteString(coded)
		if opt['w'] != "0" {
			_ = c.out.WriteByte('\n')
		}
		return nil
	})
}

func sum(c *call, algorithm func() hash.Hash) int {
	return c.each(c.args, func(name string, r io.Reader) error {
		h := algorithm()
		_, err := io.Copy(h, r)
		_, _ = fmt.Fprintf(c.out, "%x  %s\n", h.Sum(nil), name)
		return err
	})
}
