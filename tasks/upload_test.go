package tasks

import (
	"path/filepath"
	"testing"
)

func TestIgnored(t *testing.T) {
	t.Parallel()
	dir := write(t, "-- tests/.harborignore --\n*.log\n/deep/\n-- solution/x --\n")
	ignored, err := Ignored(filepath.Join(dir, "tests"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		".harborignore": true, "a.log": true, "b/a.log": true, "deep/x": true, "x/deep/y": false, "test.sh": false,
	} {
		if got := ignored(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if ignored, err = Ignored(filepath.Join(dir, "solution")); err != nil || ignored != nil {
		t.Errorf("without a file: %v, %v", ignored != nil, err)
	}
}
