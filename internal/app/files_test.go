package app

import "testing"

func TestFewOpenFilesMeanFewTrials(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64]int{0: 1, 64: 1, 80: 2, 256: 24, 1024: 120, 1 << 62: 1 << 20} {
		if got := mostTrials(files); got != want {
			t.Errorf("%d files: %d trials, want %d", files, got, want)
		}
	}
}
