package tools

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

func cut(c *call) int {
	opt, names, err := c.parse("d:f:c:s")
	if err != nil {
		return c.usage(err)
	}
	delim, list := "\t", opt['f']
	if opt.has('d') {
		delim = opt['d']
	}
	if opt.has('c') {
		delim, list = "", opt['c']
	}
	return c.each(names, func(_ string, r io.Reader) error {
		return c.lines(r, func(line string) error {
			parts := strings.Split(line, delim)
			if delim != "" && len(parts) == 1 {
				_, _ = fmt.Fprintln(c.out, line)
				return nil
			}
			var out []string
			for i, part := range parts {
				if inList(list, i+1) {
					out = append(out, part)
				}
			}
			_, _ = fmt.Fprintln(c.out, strings.Join(out, delim))
			return nil
		})
	})
}

// inList reports whether n is in a list such as "1,3-5,7-".
func inList(list string, n int) bool {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		low, errLow := strconv.Atoi(from)
		high, errHigh := strconv.Atoi(to)
		switch {
		case !isRange:
			high = low
		case errHigh != nil:
			high = n
		}
		if errLow != nil && isRange {
			low = 1
		}
		if n >= low && n <= high {
			return true
		}
	}
	return false
}

func seq(c *call) int {
	numbers := []int{1, 1, 0}
	at := map[int][]int{1: {2}, 2: {0, 2}, 3: {0, 1, 2}}[len(c.args)]
	if at == nil {
		return c.usage(errors.New("want one to three numbers"))
	}
	for i, a := range c.args {
		n, err := strconv.Atoi(a)
		if err != nil {
			return c.usage(fmt.Errorf("invalid number %q", a))
		}
		numbers[at[i]] = n
	}
	first, step, last := numbers[0], numbers[1], numbers[2]
	if step == 0 {
		return c.usage(errors.New("the increment is zero"))
	}
	for n := first; step > 0 && n <= last || step < 0 && n >= last; n += step {
		_, _ = fmt.Fprintln(c.out, n)
	}
	return 0
}

func yes(c *call) int {
	word := "y"
	if len(c.args) > 0 {
		word = strings.Join(c.args, " ")
	}
	block := bytes.Repeat([]byte(word+"\n"), 1+8192/(len(word)+1))
	for {
		if _, err := c.p.Write(1, block); err != nil {
			return c.failf("%v", err)
		}
	}
}

// cmp compares two files; diff is the same tool, as scripts ask only whether
// there is a difference.
func cmp(c *call) int {
	_, names, err := c.parse("sqru")
	if err == nil && len(names) != 2 {
		err = errors.New("want two files")
	}
	if err != nil {
		return c.usage(err)
	}
	var contents [][]byte
	code := c.each(names, func(_ string, r io.Reader) error {
		all, err := c.slurp(r)
		contents = append(contents, all)
		return err
	})
	switch {
	case code != 0:
		return 2
	case bytes.Equal(contents[0], contents[1]):
		return 0
	}
	_, _ = fmt.Fprintf(c.out, "%s %s differ\n", names[0], names[1])
	return 1
}
