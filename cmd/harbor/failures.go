package main

import (
	"cmp"
	"fmt"
	"slices"

	"harborgate/trials"
	"harborgate/trials/stats"
)

// failures prints whose doing exceptions and missing verdicts are, with examples.
func (p *summary) failures() {
	begun := false
	for _, r := range p.report.Rows {
		for _, f := range r.Failures {
			if !begun {
				p.section("Exceptions and missing verdicts, by blame")
				begun = true
			}
			head := []string{blameText(f), cmp.Or(f.Exception, "no exception"), plural(f.N, "trial")}
			if f.Graded > 0 {
				head = append(head, fmt.Sprintf("%d graded all the same", f.Graded))
			}
			p.broken("", 0, " · ", head)
			if len(p.report.Rows) > 1 {
				p.broken("", 2, "", []string{"of " + middle(r.Title(), columns-7)})
			}
			if f.Reason != "" {
				more := ""
				if f.Others > 0 {
					more = " (and " + plural(f.Others, "other reason") + ")"
				}
				p.broken("", 2, "", []string{clip(oneLine(f.Reason), columns-4-len(more)) + more})
			}
			names := f.Trials
			if more := len(names) - mostExamples; more > 0 {
				names = append(slices.Clone(names[:mostExamples]), fmt.Sprintf("and %d more", more))
			}
			p.broken("", 2, "  ", names)
		}
	}
}

func blameText(f stats.Failure) string {
	switch {
	case f.Blame != trials.BlameNone:
		return string(f.Blame)
	case f.Exception == trials.ExcCancelled:
		return "cancelled"
	}
	return "nobody blamed"
}
