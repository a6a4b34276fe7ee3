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

// Archive moves what a try left in a trial's directory to tries/<n>/ and returns n:
// the try's own number when its result says it and it is free, else the next one. A
// directory without anything is left as it is, and n is 0. The result goes first: from
// then on the trial has none.
func Archive(dir string) (n int, err error) {
	rest, err := leftovers(dir)
	if err == nil && len(rest) > 0 {
		n, err = archive(dir, rest)
	}
	if err != nil {
		return 0, fmt.Errorf("keep the earlier try of %s: %w", filepath.Base(dir), err)
	}
	return n, nil
}

func archive(dir string, names []string) (int, error) {
	stage := filepath.Join(dir, TriesDir, moving)
	if err := os.MkdirAll(stage, 0o755); err != nil {
		return 0, err
	}
	for _, name := range append([]string{ResultFile}, names...) {
		err := os.Rename(filepath.Join(dir, name), filepath.Join(stage, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the result is in names too, or there is none
			return 0, err
		}
	}
	n, err := place(dir, stage)
	if err != nil {
		return 0, err
	}
	return n, os.Rename(stage, tryDir(dir, n))
}

func tryDir(dir string, n int) string { return filepath.Join(dir, TriesDir, strconv.Itoa(n)) }

// place is the number under which a try is kept. One that was put back has left its
// own free.
func place(dir, stage string) (int, error) {
	last, err := Tries(dir)
	if err != nil {
		return 0, err
	}
	r, err := readBrief(stage)
	if err != nil || r.Harborgate == nil || r.Harborgate.Try < 1 || r.Harborgate.Try > last {
		return last + 1, nil //nolint:nilerr // a try that was cut off says nothing
	}
	if _, err := os.Lstat(tryDir(dir, r.Harborgate.Try)); !errors.Is(err, fs.ErrNotExist) {
		return last + 1, nil
	}
	return r.Harborgate.Try, nil
}

// PutBack makes the archived try n the trial's latest again; what is in the trial's
// directory now is archived. The result comes last: until then the trial has none.
func PutBack(dir string, n int) error {
	if _, err := Archive(dir); err != nil {
		return err
	}
	if err := putBack(dir, tryDir(dir, n)); err != nil {
		return fmt.Errorf("put try %d of %s back: %w", n, filepath.Base(dir), err)
	}
	return nil
}

func putBack(dir, try string) error {
	entries, err := os.ReadDir(try)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == ResultFile {
			continue
		}
		if err := os.Rename(filepath.Join(try, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := os.Rename(filepath.Join(try, ResultFile), filepath.Join(dir, ResultFile)); err != nil {
		return err
	}
	return os.Remove(try)
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

// movedFile says of a try why it does not count.
const movedFile = "moved.txt"

// MarkMoved notes that the try in a trial's directory does not count, before it is
// archived: its provider failed it.
func MarkMoved(dir, why string) error {
	return os.WriteFile(filepath.Join(dir, movedFile), []byte(why+"\n"), 0o644)
}

func moved(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, movedFile))
	return err == nil
}

// Failed counts the archived tries that failed by themselves: those that were cut
// off, cancelled or moved did not.
func Failed(dir string) (int, error) {
	n, err := Tries(dir)
	failed := 0
	for i := 1; i <= n; i++ {
		r, err := readBrief(tryDir(dir, i))
		if err == nil && r.ExceptionInfo != nil && r.ExceptionInfo.Type != trials.ExcCancelled && !moved(tryDir(dir, i)) {
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
