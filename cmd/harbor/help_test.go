package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp holds the help of every command against testdata/help, so that nobody
// changes a flag unseen. `make golden` writes the files anew.
func TestHelp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "help")
	written := map[string]bool{}
	for _, path := range commandPaths(newRoot(&env{}), nil) {
		name := strings.Join(append([]string{"harbor"}, path...), "-") + ".golden"
		written[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := helpOf(t, path)
			file := filepath.Join(dir, name)
			if os.Getenv(updateGolden) != "" {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: write it with `make golden`", err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the help of %q changed; if that is meant, run `make golden`. Now:\n%s", strings.Join(path, " "), got)
			}
		})
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !written[f.Name()] {
			t.Errorf("%s is the help of no command: remove it", filepath.Join(dir, f.Name()))
		}
	}
}

// commandPaths lists the arguments of every command that is shown, the root's too.
func commandPaths(c *cobra.Command, path []string) [][]string {
	out := [][]string{path}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			out = append(out, commandPaths(sub, append(path[:len(path):len(path)], sub.Name()))...)
		}
	}
	return out
}

// helpOf runs the program as a user does.
func helpOf(t *testing.T, path []string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), append(path[:len(path):len(path)], "--help"), streams{out: &out, err: &errs}); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.Bytes()
}

// TestEveryFlagSaysWhatItDoes keeps flags without a word out of the help.
func TestEveryFlagSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	root := newRoot(&env{})
	for _, path := range commandPaths(root, nil) {
		c, _, err := root.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		if c.Short == "" {
			t.Errorf("%s has no short description", c.CommandPath())
		}
		for line := range strings.Lines(c.Flags().FlagUsages()) {
			if fields := strings.Fields(line); len(fields) < 3 {
				t.Errorf("%s: flag without a description: %s", c.CommandPath(), line)
			}
		}
	}
}

// TestWrongCommandLinesAreUsageErrors covers all that goes wrong before a command
// begins.
func TestWrongCommandLinesAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"nonsense"}, {"job", "nonsense"}, {"job", "show"}, {"trial", "logs", "a", "b", "c"}, {"run", "surplus"},
		{"run", "--no-such-flag"}, {"run", "-n", "many"}, {"version", "--json=perhaps"}, {"run", "--dataset", "x"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), args, streams{out: &out, err: &errs})
		if code != exitUsage || out.Len() > 0 || !strings.HasPrefix(errs.String(), "harbor: ") {
			t.Errorf("%v: exit code %d, standard output %q, error %q", args, code, out.String(), errs.String())
		}
	}
}

// TestRefusedFlagsSayWhy: a flag that Harbor's users know works or is refused by
// name, and is never ignored.
func TestRefusedFlagsSayWhy(t *testing.T) {
	t.Parallel()
	for _, f := range refusedFlags {
		arg := "--" + f.name
		if !f.boolean {
			arg += "=x"
		}
		for _, command := range [][]string{{"run"}, {"trial", "start"}} {
			var out, errs bytes.Buffer
			code := run(t.Context(), append(command, arg), streams{out: &out, err: &errs})
			if code != exitUsage || !strings.Contains(errs.String(), "--"+f.name+": "+f.why) {
				t.Errorf("%v %s: exit code %d, error %q", command, arg, code, errs.String())
			}
		}
	}
}

func TestTwoProvidersAreOneList(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"run"}, {"trial", "start"}, {"job", "resume", "j"}, {"job", "regrade", "j"}} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append(command, "-e", "a=2", "--env", "fake"), streams{out: &out, err: &errs})
		if code != exitUsage || !strings.Contains(errs.String(), "it is given twice: give -e once: -e a=2,fake") {
			t.Errorf("%v: exit code %d, error %q", command, code, errs.String())
		}
	}
}
