package plane

import "math"

// Size is what a sandbox takes, or what a limit leaves. Zero is not asked for, or no
// limit.
type Size struct {
	Sandboxes int     `json:"sandboxes" yaml:"sandboxes"`
	CPUs      float64 `json:"cpus"      yaml:"cpus"`
	MemoryMiB int64   `json:"memory_mb" yaml:"memory_mb"`
	DiskMiB   int64   `json:"disk_mb"   yaml:"disk_mb"`
	GPUs      int     `json:"gpus"      yaml:"gpus"`
}

// or takes from o what s does not say.
func (s Size) or(o Size) Size {
	a, b := s.amounts(), o.amounts()
	for i := range a {
		if a[i] == 0 {
			a[i] = b[i]
		}
	}
	return a.size()
}

// amounts are a Size in whole numbers, so that what is added comes off again.
type amounts [5]int64

// kinds name the amounts, as limits and refusals do.
var kinds = [len(amounts{})]string{"sandboxes", "cpus", "memory_mb", "disk_mb", "gpus"}

const milli = 1000 // of a CPU

func (s Size) amounts() amounts {
	return amounts{int64(s.Sandboxes), int64(math.Round(milli * s.CPUs)), s.MemoryMiB, s.DiskMiB, int64(s.GPUs)}
}

func (a amounts) size() Size {
	return Size{Sandboxes: int(a[0]), CPUs: a.of(1), MemoryMiB: a[2], DiskMiB: a[3], GPUs: int(a[4])}
}

// of is one amount as it is written.
func (a amounts) of(i int) float64 {
	if kinds[i] == "cpus" {
		return float64(a[i]) / milli
	}
	return float64(a[i])
}

func (a amounts) plus(b amounts) amounts {
	for i := range a {
		a[i] += b[i]
	}
	return a
}

func (a amounts) minus(b amounts) amounts {
	for i := range a {
		a[i] -= b[i]
	}
	return a
}

func (a amounts) most(b amounts) amounts {
	for i := range a {
		a[i] = max(a[i], b[i])
	}
	return a
}

// above is the first amount that is over its limit, -1 when none is.
func (a amounts) above(limits amounts) int {
	for i := range a {
		if limits[i] > 0 && a[i] > limits[i] {
			return i
		}
	}
	return -1
}

func (a amounts) negative() bool {
	for i := range a {
		if a[i] < 0 {
			return true
		}
	}
	return false
}
