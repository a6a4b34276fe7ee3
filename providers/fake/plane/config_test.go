package plane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProfileIsWhatIsNotSaid(t *testing.T) {
	t.Parallel()
	got, err := Read(strings.NewReader("profile: daytona-tier-3\ntime_scale: 60\nlimits: {disk_mb: 100}\nrates: {create: {per_sec: 2, burst: 5}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Profile: "daytona-tier-3", TimeScale: 60,
		Limits:  Size{CPUs: 250, MemoryMiB: 500 << 10, DiskMiB: 100},
		Sandbox: Size{CPUs: 1, MemoryMiB: 1 << 10, DiskMiB: 3 << 10}, Largest: Size{CPUs: 4, MemoryMiB: 8 << 10, DiskMiB: 10 << 10},
		Rates: map[Op]Rate{OpCreate: {PerSec: 2, Burst: 5}, OpDelete: {PerMin: 40_000}, OpRead: {PerMin: 40_000}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := New(got, nil); err != nil {
		t.Errorf("what was read cannot be used: %v", err)
	}
}

func TestEveryProfileIsWhole(t *testing.T) {
	t.Parallel()
	for _, name := range Profiles() {
		c, err := Read(strings.NewReader("profile: " + name))
		if err != nil || c.Limits == (Size{}) || c.Sandbox == (Size{}) || len(c.Rates) != 3 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestMistakesInConfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"limits: {sandboxs: 3}":                     "line 1: sandboxs is no key there; docs/providers.md",
		"time_scale: fast":                          "line 1: a str `fast` cannot stand there",
		"profile: daytona-tier-9":                   "use one of daytona-tier-1, ",
		"time_scale: -1":                            "time_scale is -1",
		"limits: {cpus: -1}":                        "limits: a number is less than 0",
		"rates: {created: {per_sec: 1}}":            "rates.created: no class",
		"rates: {create: {per_sec: 1, per_min: 1}}": "per_min has neither",
		"rates: {create: {burst: 1}}":               "burst needs per_sec",
		"rates: {read: {per_sec: -1}}":              "rates.read: a number",
		"latency: {create: {sec: 1, spread: 2}}":    "spread from 0 to 1",
		"faults: [{effect: odd}]":                   `effect "odd"`,
		"faults: [{effect: down, op: odd}]":         `op "odd"`,
		"faults: [{effect: down, percent: 101}]":    "out of range",
		"seed: 1\n---\nseed: 2":                     "more than one document",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "sim.yaml")
	if err := os.WriteFile(path, []byte("odd: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// Whatever is written, it is refused or can be used.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"", "profile: ec2-default", "limits: {cpus: 1.5}\nrates: {exec: {per_min: 3}}", "faults: [{effect: lose, every: 2}]", "- 1", "time_scale: .inf",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		p, err := New(c, nil)
		if err != nil {
			t.Fatalf("%q was read and cannot be used: %v", text, err)
		}
		if _, err := p.Counters(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
