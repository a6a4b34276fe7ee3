package main

import (
	"fmt"
	"io"

	"harborgate/internal/app"
)

// writeSummary prints the numbers of a finished job.
func writeSummary(w io.Writer, s app.Summary) {
	for _, t := range s.Trials {
		fmt.Fprintln(w, t.Name, t.Rewards, t.Valid, t.Exception, t.Duration)
	}
}

func reportOf(s app.Summary) any { return s.Trials }
