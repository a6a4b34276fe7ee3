package inside_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"harborgate/providers"
)

// maxMemory is what the companion may take from a sandbox with 20 commands that
// have run for more than a second: the sum of proportional set sizes, in KiB.
const maxMemory = 21 << 10

func TestContainerMemoryOfTheCompanion(t *testing.T) {
	t.Parallel()
	s := start(t, nil).open(t)
	const pss = "grep -h ^Pss: $(grep -l harbor-inside /proc/[0-9]*/cmdline | grep -v self | sed s/cmdline/smaps_rollup/) | awk '{s+=$2} END {print s}'"
	measure := func() int {
		got := run(t, s, sh(pss))
		n, err := strconv.Atoi(strings.TrimSpace(got.out))
		if err != nil {
			t.Fatalf("%v: %v", err, got)
		}
		return n
	}
	idle := measure()
	ctx, cancel := context.WithCancel(t.Context())
	var started, ended sync.WaitGroup
	for range 20 {
		started.Add(1)
		var once sync.Once
		ended.Go(func() {
			_, _ = s.Exec(ctx, providers.Command{
				Args: []string{"sh", "-c", "sleep 2; echo; exec sleep 1000"}, Stdout: onWrite(func() { once.Do(started.Done) }),
			})
		})
	}
	started.Wait()
	busy := measure()
	cancel()
	ended.Wait()
	t.Logf("%d KiB idle, %d KiB with 20 commands", idle, busy)
	if busy > maxMemory {
		t.Errorf("%d KiB with 20 commands, at most %d", busy, maxMemory)
	}
}
