package results

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

// A reward, a log or an artifact that is a link shows no byte of the host.
func TestB078LinksAreNeverFollowed(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := tr.Unpack(archiveOf(t,
		entry{name: "reward.txt", typ: tar.TypeSymlink, link: secret},
		entry{name: "hard", typ: tar.TypeLink, link: secret},
		entry{name: "dir", typ: tar.TypeSymlink, link: filepath.Dir(secret)},
		entry{name: "dir/secret", body: "overwritten"},
	), trials.Unpack{Dir: "verifier"})
	if err != nil || len(got.LeftOut()) != 3 {
		t.Errorf("%v %v", got.LeftOut(), err)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "s3cret" {
		t.Errorf("the host's file is now %q %v", b, err)
	}
	// Also when such links are in the directory already, as with mounted logs.
	for name, target := range map[string]string{"verifier/reward.json": secret, "verifier/up": ".."} {
		if err := os.Symlink(target, tr.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := tr.Read("verifier/reward.json", 100); err == nil {
		t.Errorf("read %q through a link", b)
	}
	if b, err := tr.Ends("verifier/reward.json", 100); err == nil {
		t.Errorf("read %q through a link", b)
	}
	if _, err := tr.Unpack(archiveOf(t, entry{name: "reward.json", body: "1"}, entry{name: "up/result.json", body: "forged"}), trials.Unpack{Dir: "verifier"}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "s3cret" {
		t.Errorf("the host's file is now %q %v", b, err)
	}
	if _, err := os.Lstat(tr.Path("result.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("an entry went through a link to the directory above")
	}
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	if err := os.MkdirAll(tr.Path("verifier/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := makePipe(tr.Path("verifier/pipe")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tr.Path("verifier/big"), make([]byte, 101), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"verifier/dir": "no regular file", "verifier/pipe": "no regular file", "verifier/big": "101 bytes", "../../x": "",
	} {
		if b, err := tr.Read(name, 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
	if _, err := tr.Read("verifier/none", 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if b, err := tr.Read("verifier/big", 101); err != nil || len(b) != 101 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// Links are told apart from what is lost, in the order of the stream, and count
// against the limit of files.
func TestLinksAreListed(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, Limits{FileBytes: 10, TotalBytes: 10, Files: 3})
	got, err := tr.Unpack(archiveOf(t,
		entry{name: "./d/l", typ: tar.TypeSymlink, link: "../a"}, entry{name: "a", body: "1"}, entry{name: "../up", typ: tar.TypeSymlink, link: "a"},
		entry{name: "abs", typ: tar.TypeSymlink, link: "/etc/passwd"}, entry{name: "unwanted", typ: tar.TypeSymlink, link: "a"},
		entry{name: "unwanted", typ: tar.TypeFifo}, entry{name: "one too many", typ: tar.TypeSymlink, link: "a"},
	), trials.Unpack{Dir: "agent", Want: func(name string) bool { return name != "unwanted" }})
	if err != nil {
		t.Fatal(err)
	}
	want := []trials.Link{{Name: "d/l", Target: "../a"}, {Name: "abs", Target: "/etc/passwd"}}
	if diff := cmp.Diff(want, got.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	skipped := []trials.Skipped{{Name: "../up", Reason: "its name leads outside"}, {Name: "one too many", Reason: "the trial has 3 files already"}}
	if diff := cmp.Diff(skipped, got.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if n := len(got.LeftOut()); n != 4 {
		t.Errorf("%d entries are left out: %v", n, got.LeftOut())
	}
}

func TestMemoryOfLinksIsBounded(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	target := strings.Repeat("x", 4000)
	const fit = maxLinks / 4001
	entries := make([]entry, fit+2)
	for i := range entries {
		entries[i] = entry{name: "l", typ: tar.TypeSymlink, link: target}
	}
	got, err := tr.Unpack(archiveOf(t, entries...), trials.Unpack{Dir: "agent"})
	if err != nil || len(got.Links) != fit || len(got.Skipped) != 2 {
		t.Errorf("%d links, %d skipped, want %d and 2: %v", len(got.Links), len(got.Skipped), fit, err)
	}
}
