package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/providers/fake/plane"
)

// A file is found beside config.yaml, and what is wrong with it is said.
func TestSimulatedProviderFromFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"sim.yaml": "profile: daytona-tier-3", "wrong.yaml": "limit: 3"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		o    fakeOptions
		want string // of the error
	}{
		{fakeOptions{}, ""},
		{fakeOptions{Simulate: "sim.yaml"}, ""},
		{fakeOptions{Simulate: filepath.Join(dir, "sim.yaml")}, ""},
		{fakeOptions{SimulateAt: "unix:/run/sim"}, ""},
		{fakeOptions{Simulate: "wrong.yaml"}, "limit is no key there"},
		{fakeOptions{Simulate: "none.yaml"}, filepath.Join(dir, "none.yaml")},
		{fakeOptions{SimulateAt: "somewhere"}, "neither unix:/path nor http"},
		{fakeOptions{Simulate: "sim.yaml", SimulateAt: "unix:/run/sim"}, "exclude each other"},
	} {
		control, err := c.o.control(dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
		if p, ok := control.(*plane.Plane); err == nil && ok != (c.o.Simulate != "") || ok && err == nil && p.Config().Limits.CPUs != 250 {
			t.Errorf("%+v: %T", c.o, control)
		}
	}
}
