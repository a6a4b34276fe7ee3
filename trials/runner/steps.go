package runner

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
)

// step is how builders number the lines of a Dockerfile: "[2/5]", "[stage 2/5]"
// and "Step 2/5".
var step = regexp.MustCompile(`(?:\[(?:[\w.-]+ +)?|^Step )(\d+)/(\d+)`)

// steps passes a build's log on and tells how far the build is.
type steps struct {
	io.Writer
	tell func(done, of int)
	last [2]int
}

func (s *steps) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		m := step.FindSubmatch(line)
		if m == nil {
			continue
		}
		done, _ := strconv.Atoi(string(m[1]))
		of, _ := strconv.Atoi(string(m[2]))
		if at := [2]int{done, of}; at != s.last && done <= of {
			s.last = at
			s.tell(done, of)
		}
	}
	return s.Writer.Write(b)
}
