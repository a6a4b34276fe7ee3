package view

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openFile opens one file of a trial.
func openFile(t *testing.T, content string) (u *ui, path string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "trial")
	putTrial(t, filepath.Dir(dir), trialOf("trial", 1, 1))
	path = filepath.Join(dir, "agent", "log.txt")
	put(t, path, content)
	u = start(t, dir)
	u.press("2 enter")
	return u, path
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestPagerMoves(t *testing.T) {
	t.Parallel()
	u, _ := openFile(t, numbered(1, 100)) // 16 lines are seen
	for _, c := range []struct{ keys, has, lacks string }{
		{"", "line 1\n", "line 17\n"},
		{"down", "line 17\n", "line 1\n"},
		{"up", "line 1\n", "line 17\n"},
		{"up", "line 1\n", "line 17\n"},
		{"pgdown", "line 32\n", "line 16\n"},
		{"pgup", "line 1\n", "line 17\n"},
		{"G", "line 85\n", "line 84\n"},
		{"down pgdown", "line 85\n", "line 84\n"},
		{"up", "line 84\n", "line 100\n"},
		{"end", "100 %", "line 84\n"},
		{"g", "line 1\n", "line 17\n"},
		{"right", "column 9", "line"},
		{"0", "line 1\n", "column"},
	} {
		u.press(c.keys)
		u.shows(c.has)
		u.lacks(c.lacks)
	}
}

func TestPagerSearches(t *testing.T) {
	t.Parallel()
	u, _ := openFile(t, numbered(1, 5000)+"a NEEDLE here\n"+numbered(5001, 9000)+"another needle\n"+numbered(9001, 9100))
	u.press("/ needle enter")
	u.shows("a NEEDLE here")
	u.press("n")
	u.shows("another needle")
	u.press("n")
	u.shows("no more needle", "another needle")
	u.press("N")
	u.shows("a NEEDLE here")
	u.press("N")
	u.shows("no more needle")
	u.press("/ x esc")
	u.lacks("search:")
	if s := u.b.screen(); !strings.Contains(s, match.on("NEEDLE")) {
		t.Errorf("the match is not marked: %q", s)
	}
}

// A match on the border of two steps of reading is found, in both directions.
func TestFindAtBorders(t *testing.T) {
	t.Parallel()
	free := func() error { return nil }
	for _, at := range []int{0, 1, scanStep - 3, scanStep - 1, scanStep, 2*scanStep - 2, 3*scanStep - 6} {
		content := []byte(strings.Repeat(".", 3*scanStep))
		copy(content[at:], "needle")
		x := text{src: strings.NewReader(string(content)), size: int64(len(content))}
		if got, err := x.find([]byte("Needle"), 0, free); err != nil || got != int64(at) {
			t.Errorf("find: %d %v, want %d", got, err, at)
		}
		if got, err := x.findBack([]byte("Needle"), x.size, free); err != nil || got != int64(at) {
			t.Errorf("findBack: %d %v, want %d", got, err, at)
		}
		if got, err := x.findBack([]byte("Needle"), int64(at), free); err != nil || got != -1 {
			t.Errorf("findBack above: %d %v", got, err)
		}
	}
}

func TestPagerFollows(t *testing.T) {
	t.Parallel()
	u, path := openFile(t, numbered(1, 100))
	u.press("f")
	u.shows("following", "line 100\n")
	put(t, path, numbered(1, 200))
	u.tick()
	u.shows("line 200\n")
	u.press("up") // looking back ends it
	u.lacks("following")
	put(t, path, numbered(1, 300))
	u.tick()
	u.shows("line 199\n")
	u.lacks("line 300\n")
}

func TestPagerMeetsOtherFiles(t *testing.T) {
	t.Parallel()
	u, path := openFile(t, numbered(1, 100))
	u.press("G")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	u.tick()
	u.shows("empty")
	put(t, path+".new", "replaced\n")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	u.tick()
	u.shows("replaced")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	u.tick() // what is open stays readable
	u.shows("replaced")
}

// Of a huge file only what is shown is read. It has holes, so that the test takes
// no space.
func TestPagerOfAHugeFile(t *testing.T) {
	t.Parallel()
	u, path := openFile(t, numbered(1, 2000))
	const huge = 1 << 40
	if err := os.Truncate(path, huge); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("\nthe end\n"), huge); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	u.tick()
	u.press("G")
	u.shows("1.0 TiB", "the end")
	u.press("up up pgup g")
	u.shows("line 1\n")
}

func TestLongLinesComeInPieces(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("ä", 3*longest) + "\nshort\n\nlast"
	x := text{src: strings.NewReader(content), size: int64(len(content))}
	all, err := x.lines(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var joined strings.Builder
	for _, l := range all {
		joined.Write(l.raw)
		if strings.ContainsRune(clean(string(l.raw)), '<') {
			t.Errorf("a character was torn: %q", clean(string(l.raw[:10])))
		}
	}
	if want := strings.ReplaceAll(content, "\n", ""); joined.String() != want {
		t.Errorf("%d bytes, want %d", joined.Len(), len(want))
	}
	if n := len(all); n != 10 { // 6 pieces and a rest, short, nothing, last
		t.Errorf("%d lines", n)
	}
	for at, n := x.size, 0; at > 0; n++ {
		next, err := x.back(at, 1)
		if err != nil || next >= at || n > 20 {
			t.Fatalf("back from %d is %d: %v", at, next, err)
		}
		at = next
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), uint16(2))
	f.Add([]byte(strings.Repeat("x", 5000)+"\n\xff\xff"), uint16(4999))
	f.Fuzz(func(t *testing.T, b []byte, from uint16) {
		x := text{src: strings.NewReader(string(b)), size: int64(len(b))}
		all, err := x.lines(0, len(b)+1)
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, l := range all {
			total += len(l.raw)
		}
		if newlines := strings.Count(string(b), "\n"); total != len(b)-newlines {
			t.Errorf("%d bytes in lines, %d in all without %d line ends", total, len(b), newlines)
		}
		at := min(int64(from), x.size)
		for at > 0 {
			next, err := x.back(at, 1)
			if err != nil || next >= at {
				t.Fatalf("back from %d is %d: %v", at, next, err)
			}
			at = next
		}
	})
}
