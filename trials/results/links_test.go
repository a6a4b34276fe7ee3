package results

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
