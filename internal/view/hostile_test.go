package view

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"harborgate/trials"
	"harborgate/trials/results"
)

// evil is what a sandbox could write to take over a terminal: to clear it, to set
// its title, to ask it for its answers, to write backwards.
const evil = "\x1b[2J\x1b]0;owned\x07\x1b[6n\u009b31m\u202egnp.exe\u200b\r\x08\x7f\xff"

// hostile is a job in which every text is evil, and every place a trap.
func hostile(t *testing.T) string {
	t.Helper()
	outside := filepath.Join(t.TempDir(), "outside")
	put(t, filepath.Join(outside, "secret"), "the secret of the host\n")
	dir := filepath.Join(t.TempDir(), "job"+evil)
	putJob(t, dir, 2, true)
	r := failed(trialOf("t__1", 1, 1), "Evil"+evil+"Error", trials.Blame("blame"+evil), "message"+evil+"\nmore"+evil)
	r.TaskName, r.AgentInfo.Name, r.AgentInfo.Version = "task"+evil, "agent"+evil, "1"+evil
	r.VerifierResult.Rewards[0].Key = "key" + evil
	r.VerifierResult.Rewards = append(r.VerifierResult.Rewards, trials.Reward{Key: "other" + evil})
	r.Harborgate.Suspect = []trials.Suspicion{{Code: "code" + evil, Message: "doubt" + evil}}
	r.Harborgate.Notes = []trials.Note{{Code: "note" + evil, Message: "note" + evil}}
	putTrial(t, dir, r)
	trial := filepath.Join(dir, "t__1")
	put(t, filepath.Join(trial, "agent", "log"+evil), "text"+evil+"\n"+evil)
	put(t, filepath.Join(trial, "verifier", "ctrf.json"), `{"results": {"tests": [{"name": "test\u001b[2J\u202e", "status": "failed\u001b[2J", "message": "\u001b]0;x\u0007"}]}}`)
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(trial, "agent", name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "secret"), "link-out")
	link("../../../../../../../../../../../.."+filepath.Join(outside, "secret"), "link-up")
	link("x"+evil, "link"+evil)
	link(outside, "dir-out")
	if err := syscall.Mkfifo(filepath.Join(trial, "agent", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A trial whose documents are traps: reading them would block, or lead out.
	trap := filepath.Join(dir, "trap__2")
	put(t, filepath.Join(trap, results.ConfigFile), "{}")
	if err := syscall.Mkfifo(filepath.Join(trap, results.ResultFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(trap, "agent")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// walk opens all that there is to open, and gives every screen to see.
func walk(u *ui, see func(screen string)) {
	press := func(keys string) {
		u.press(keys)
		see(u.b.screen())
	}
	press("enter")
	for range 2 { // trials
		press("enter")
		for _, tab := range []string{"1", "2", "3", "4", "5"} {
			press(tab)
			press("down enter down")
			for range 9 {
				press("enter")
				press("/ x enter esc")
				press("down")
			}
		}
		press("esc")
		press("down")
	}
	press("?")
}

func TestHostileTextIsShownAndNotObeyed(t *testing.T) {
	t.Parallel()
	u := start(t, filepath.Dir(hostile(t)))
	u.resize(200, 50)
	screens := 0
	walk(u, func(s string) {
		screens++
		if bad := obeyed(s); bad != "" {
			t.Fatalf("%q reached the terminal:\n%q", bad, s)
		}
		if strings.Contains(s, "the secret of the host") {
			t.Fatalf("a link out was followed:\n%s", s)
		}
	})
	if screens < 200 {
		t.Errorf("only %d screens were seen", screens)
	}
}

func TestFilesThatAreNotOpened(t *testing.T) {
	t.Parallel()
	dir := hostile(t)
	f, err := openFolder(filepath.Join(dir, "t__1"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for name, why := range map[string]string{
		"agent/pipe": "a pipe", "agent/link-out": "a link", "agent/link-up": "a link", "agent/dir-out": "a link", "agent": "a directory",
		"agent/dir-out/secret": "escapes", "../trap__2/config.json": "escapes", "agent/none": "no such file",
	} {
		if _, err := f.read(name); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", name, err, why)
		}
	}
	if _, _, err := f.list("agent/dir-out"); err == nil {
		t.Error("a directory outside was listed")
	}
}

// Looking changes nothing, not even a time.
func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	dir := hostile(t)
	state := func() map[string]time.Time {
		out := map[string]time.Time{}
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := d.Info()
			out[p] = fi.ModTime()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := state()
	u := start(t, filepath.Dir(dir))
	walk(u, func(string) {})
	u.tick()
	after := state()
	if len(after) != len(before) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
	for p, at := range before {
		if !after[p].Equal(at) {
			t.Errorf("%s was changed", p)
		}
	}
}
