package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"harborgate/trials/stats"
)

// ctrfFile is where verifiers leave what each of their tests did, in the Common
// Test Report Format.
const ctrfFile = "verifier/ctrf.json"

// mostTests is how many tests are listed.
const mostTests = 10_000

// test is one test of a verifier.
type test struct {
	Name     string  `json:"name"`
	Status   string  `json:"status"` // passed, failed, skipped, pending, other
	Duration float64 `json:"duration"`
	Message  string  `json:"message"`
	Trace    string  `json:"trace"`
	File     string  `json:"filePath"`
}

// parseTests reads a report.
func parseTests(b []byte) ([]test, error) {
	var doc struct {
		Results struct {
			Tests []test `json:"tests"`
		} `json:"results"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("%s is no test report: %w", ctrfFile, err)
	}
	return doc.Results.Tests[:min(len(doc.Results.Tests), mostTests)], nil
}

// tests lists the verifier's tests.
type tests struct {
	dir   *folder
	tests []test
	info  fs.FileInfo
	err   error
	list  list
	size  size
}

func newTests(dir *folder) *tests { return &tests{dir: dir} }

// refresh reads the report when it changed.
func (t *tests) refresh() {
	fi, err := t.dir.root.Lstat(ctrfFile)
	if err == nil && same(fi, t.info) {
		return
	}
	t.tests, t.info = nil, nil
	b, err := t.dir.read(ctrfFile)
	if t.err = err; err == nil {
		t.tests, t.err = parseTests(b)
		t.info = fi
	}
	t.layOut()
}

func (t *tests) layOut() { t.list.resize(len(t.tests), t.size.rows-3) }

func (t *tests) update(msg tea.Msg) action {
	switch msg := msg.(type) {
	case size:
		t.size = msg
		t.layOut()
	case tick:
		t.refresh()
	case tea.KeyPressMsg:
		switch k := msg.String(); k {
		case "enter", "right", "l":
			if t.list.cursor < len(t.tests) {
				x := t.tests[t.list.cursor]
				return action{open: newTextPager(x.Name, x.text())}
			}
		default:
			t.list.key(k)
		}
	}
	return action{}
}

// text is all that is known of a test.
func (x test) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", x.Status, x.Name)
	for _, part := range []string{x.File, x.Message, x.Trace} {
		if part != "" {
			fmt.Fprintf(&b, "\n%s\n", part)
		}
	}
	return b.String()
}

func (t *tests) keys() []binding { return []binding{{"enter", "message and trace"}} }

func testLook(status string) look {
	looks := map[string]look{"passed": {"✓", green}, "failed": {"✗", red}, "skipped": {"⊘", faint}, "pending": {"·", faint}}
	if l, ok := looks[status]; ok {
		return l
	}
	return look{"?", yellow}
}

func (t *tests) view(columns, rows int) []string {
	switch {
	case errors.Is(t.err, fs.ErrNotExist):
		return []string{faint.on("  the verifier left no " + ctrfFile + ": its output is among the logs (2)")}
	case t.err != nil:
		return wrap(t.err.Error(), columns)
	}
	out := []string{fit("  "+t.counts(), columns), ""}
	from, to := t.list.rows()
	for i := from; i < to; i++ {
		x := t.tests[i]
		l := testLook(x.Status)
		took := stats.TimeText(time.Duration(x.Duration * float64(time.Millisecond)))
		s := l.paint.on(l.sign) + " " + fit(clean(x.Name), columns-4-timeColumns) + faint.on(fitRight(took, timeColumns))
		out = append(out, marked(s, columns, i == t.list.cursor))
	}
	return out
}

// counts say how many tests ended how.
func (t *tests) counts() string {
	known := []string{"passed", "failed", "skipped", "pending", "other"}
	n := map[string]int{}
	for _, x := range t.tests {
		if slices.Contains(known, x.Status) {
			n[x.Status]++
		} else {
			n["other"]++
		}
	}
	parts := []string{plural(len(t.tests), "test")}
	for _, s := range known {
		if n[s] > 0 {
			parts = append(parts, testLook(s).paint.on(fmt.Sprintf("%d %s", n[s], s)))
		}
	}
	return strings.Join(parts, " · ")
}
