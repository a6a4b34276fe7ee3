package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"harborgate/trials"
)

// moving holds a try while it moves to its place. What a crash left there goes on
// moving with the next one.
const moving = ".moving"

// Archive moves what a try left in a trial's directory to tries/<n>/, where n is
// the next free number. A directory without anything is left as it is. The result
// goes first: from then on the trial has none.
func Archive(dir string) error {
	rest, err := leftovers(dir)
	if err == nil && len(rest) > 0 {
		err = archive(dir, rest)
	}
	if err != nil {
		return fmt.Errorf("keep the earlier try of %s: %w", filepath.Base(dir), err)
	}
	return nil
}

func archive(dir string, names []string) error {
	stage := filepath.Join(dir, TriesDir, moving)
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return err
	}
	for _, name := range append([]string{ResultFile}, names...) {
		err := os.Rename(filepath.Join(dir, name), filepath.Join(stage, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the result is in names too, or there is none
			return err
		}
	}
	n, err := Tries(dir)
	if err != nil {
		return err
	}
	return os.Rename(stage, filepath.Join(dir, TriesDir, strconv.Itoa(n+1)))
}

// leftovers are the names in a trial's directory that belong to its latest try.
func leftovers(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.Name() != TriesDir {
			out = append(out, e.Name())
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, TriesDir, moving)); err == nil && len(out) == 0 {
		return []string{ResultFile}, nil // everything has moved but the directory
	}
	return out, nil
}

// Begun reports whether there is something in a trial's directory beside archived
// tries.
func Begun(dir string) (bool, error) {
	rest, err := leftovers(dir)
	return len(rest) > 0, err
}

// Tries is the highest number of a try that was archived in a trial's directory.
func Tries(dir string) (int, error) {
	entries, err := os.ReadDir(filepath.Join(dir, TriesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	return last, nil
}

// Failed counts the archived tries that failed by themselves: those that were cut
// off or cancelled did not.
func Failed(dir string) (int, error) {
	n, err := Tries(dir)
	failed := 0
	for i := 1; i <= n; i++ {
		r, err := readBrief(filepath.Join(dir, TriesDir, strconv.Itoa(i)))
		if err == nil && r.ExceptionInfo != nil && r.ExceptionInfo.Type != trials.ExcCancelled {
			failed++
		}
	}
	return failed, err
}

func readBrief(dir string) (*trials.Result, error) {
	name := filepath.Join(dir, ResultFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return newBrief().parse(b, name)
}
