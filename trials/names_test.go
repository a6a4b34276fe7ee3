package trials

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestB054TrialNames(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]string{
		"tasks/hello-ok":                   "hello-ok",
		"hello":                            "hello",
		"tasks/hello/":                     "hello",
		"org/name":                         "name",
		"My Task":                          "My Task",
		"_x":                               "_x",
		"a--":                              "a",
		"a_-_":                             "a",
		"ÜBER-task":                        "ÜBER-task",
		"a/b":                              "b",
		`win\task`:                         "task",
		".":                                "task",
		"..":                               "task",
		"/":                                "task",
		"":                                 "task",
		".hidden":                          "hidden",
		"a\nb\x00c":                        "a_b_c",
		"bad\xffutf8":                      "bad_utf8",
		"---":                              "task",
		strings.Repeat("é", 200):           strings.Repeat("é", 32),
		strings.Repeat("a", 31) + "_-rest": strings.Repeat("a", 31),
	} {
		got, err := TrialName(reference, bytes.NewReader(make([]byte, 7)))
		if err != nil {
			t.Fatal(err)
		}
		if got != want+"__2222222" {
			t.Errorf("%q: %q, want %q", reference, got, want+"__2222222")
		}
		if err := CheckName(got); err != nil {
			t.Errorf("%q: %v", reference, err)
		}
	}
}

func TestTrialNameRandomness(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{1})
	seen := map[rune]int{}
	const draws = 2000
	for range draws {
		name, err := TrialName("x", random)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range strings.TrimPrefix(name, "x__") {
			seen[r]++
		}
	}
	if len(seen) != len(nameAlphabet) {
		t.Fatalf("%d different characters, want %d", len(seen), len(nameAlphabet))
	}
	mean := draws * randomRunes / len(nameAlphabet)
	for r, n := range seen {
		if !strings.ContainsRune(nameAlphabet, r) || n < mean/2 || n > mean*2 {
			t.Errorf("%q came %d times, the mean is %d", r, n, mean)
		}
	}
	// 255 is beyond the last full alphabet and must be drawn again.
	name, err := TrialName("x", bytes.NewReader([]byte{255, 228, 0, 1, 2, 3, 4, 5, 227}))
	if err != nil || name != "x__234567z" {
		t.Errorf("%q, %v", name, err)
	}
}

func TestTrialNameFailsWithItsSource(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	if _, err := TrialName("x", iotest.ErrReader(boom)); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if _, err := TrialName("x", bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
}

func TestB088CheckName(t *testing.T) {
	t.Parallel()
	good := []string{"a", "2026-03-03__15-30-00", "x y", "é", strings.Repeat("a", 255)}
	bad := []string{"", ".", "..", ".x", "a/b", `a\b`, "a\x00", "a\n", "\xff", strings.Repeat("a", 256)}
	for _, s := range good {
		if err := CheckName(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range bad {
		if CheckName(s) == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestJobName(t *testing.T) {
	t.Parallel()
	if got := JobName(time.Date(2026, 3, 3, 15, 30, 0, 0, time.UTC)); got != "2026-03-03__15-30-00" {
		t.Error(got)
	}
}

func FuzzTrialName(f *testing.F) {
	for _, s := range []string{"a", "..", "/", "a\\..", "\xff", strings.Repeat("é", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reference string) {
		name, err := TrialName(reference, bytes.NewReader(make([]byte, 7)))
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckName(name); err != nil {
			t.Fatalf("%q: %v", reference, err)
		}
	})
}
