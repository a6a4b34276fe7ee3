package inside_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"harborgate/internal/insideproto"
	"harborgate/providers"
	"harborgate/providers/inside"
)

// A command that runs as root can do to its supervisor what it likes.

func TestKillHoldsWhenTheSupervisorIsStopped(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*inside.Session{
		"PID 1":        start(t, nil).open(t),
		"another init": open(t, inside.Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := "HG_MARK=" + rand()
			_, took := killed(t, s, "export "+mark+"; trap '' TERM; setsid sleep 1000 & kill -STOP $PPID; echo ready; sleep 1000", 50*time.Millisecond)
			if took > 15*time.Second {
				t.Errorf("took %s", took)
			}
			if left := marked(t, mark); len(left) > 0 {
				t.Errorf("%v live on", left)
			}
			if got := run(t, s, sh("echo again")); got.out != "again\n" {
				t.Errorf("afterwards: %+v", got)
			}
		})
	}
}

// TestLeftoversDieWhenTheSupervisorIsStopped: the leftover stops the supervisor
// again and again, from before the command's end until it is killed itself.
func TestLeftoversDieWhenTheSupervisorIsStopped(t *testing.T) {
	t.Parallel()
	s := start(t, nil).open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	mark := "HG_MARK=" + rand()
	_, err := s.Exec(ctx, killing(sh("export "+mark+"; S=$PPID; setsid sh -c \"while :; do kill -STOP $S; done\" & sleep 0.2; exit 4")))
	if err != nil && !errors.Is(err, context.DeadlineExceeded) || providers.Is(err, providers.KindUnavailable) {
		t.Errorf("got %v", err)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v live on", left)
	}
}

func TestSupervisorKilledIsACrashOfTheCommand(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"supervisor": "setsid sleep 1000 & trap '' TERM; kill -9 $PPID; sleep 1000",
		"everybody":  "setsid sleep 1000 & kill -9 -1; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, nil).open(t)
			mark := "HG_MARK=" + rand()
			got := run(t, s, sh("export "+mark+"; "+script))
			if got.Code != 137 || got.Signal != 9 {
				t.Errorf("got %+v", got)
			}
			if left := marked(t, mark); len(left) > 0 {
				t.Errorf("%v live on", left)
			}
		})
	}
}

// TestKillHoldsBehindAHiddenProcessTable: with the rights to mount, root hides its
// processes from the daemon. They die all the same, but nobody can vouch for it.
func TestKillHoldsBehindAHiddenProcessTable(t *testing.T) {
	t.Parallel()
	c := start(t, []string{"--privileged"})
	s, err := inside.Open(t.Context(), inside.Options{Dial: c.Dial, RedialFor: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mark := "HG_MARK=" + rand()
	_, err = s.Exec(t.Context(), sh("export "+mark+"; setsid sleep 1000 & mount -t tmpfs none /proc && kill -9 $PPID; sleep 1000"))
	wantKind(t, err, providers.KindUnavailable)
	// Nobody has waited for their end, and a busy host takes its time for it.
	eventually(t, "nothing of the command lives on", func() bool { return len(marked(t, mark)) == 0 })
}

func TestKillHoldsAgainstALargeForkBomb(t *testing.T) {
	t.Parallel()
	c := start(t, []string{"--pids-limit", "600"}, "--", "/.hg/harbor-inside", "keepalive")
	s := c.open(t)
	mark := "HG_MARK=" + rand()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var begin time.Time
	_, err := s.Exec(ctx, providers.Command{
		Args: []string{"bash", "-c", "export " + mark + "; kill -STOP $PPID; b() { b | b & }; while :; do b; done"},
		// The first complaint is about the limit.
		Stderr: onWrite(func() { begin = time.Now(); cancel() }),
	})
	if !errors.Is(err, context.Canceled) || providers.Is(err, providers.KindUnavailable) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 25*time.Second {
		t.Errorf("took %s", took)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%d processes live on", len(left))
	}
	got := run(t, s, sh("grep -c keepalive /proc/[0-9]*/cmdline | grep -v ':0' | wc -l"))
	if strings.TrimSpace(got.out) == "0" {
		t.Errorf("the image's service is dead: %+v", got)
	}
}

func TestDownloadListsWhatItSkips(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dir := t.TempDir()
	if err := errors.Join(writeFile(dir+"/small", "x"), os.Truncate(makeFile(t, dir+"/giant"), 100<<30),
		os.MkdirAll(dir+"/d"+strings.Repeat("/d", 299), 0o755)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Download(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	skipped, whole := map[byte]string{}, map[string]int64{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if why := h.PAXRecords[insideproto.SkippedRecord]; why != "" {
			skipped[h.Typeflag] += why
		} else {
			whole[h.Name] = h.Size
		}
	}
	if skipped[tar.TypeReg] != "it has 107374182400 bytes, more than 2147483648" || skipped[tar.TypeDir] != "directories are nested deeper than 200" {
		t.Errorf("skipped %q", skipped)
	}
	if whole["small"] != 1 || len(whole) != 201 {
		t.Errorf("%d entries, small has %d bytes", len(whole), whole["small"])
	}
}
