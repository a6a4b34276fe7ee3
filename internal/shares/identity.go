package shares

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
)

// identity tells a process of this host from a later one with the same pid: by
// when it started, in the kernel's ticks since a boot.
type identity struct {
	pid         int
	start, boot string
}

// bootDigits of the boot's id are enough to tell one boot from another.
const bootDigits = 8

func self() identity { return identity{os.Getpid(), startOf(os.Getpid()), boot()} }

// boot is "" where the kernel does not say.
func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(b) < bootDigits {
		return ""
	}
	return string(b[:bootDigits])
}

// startOf is "" of a process that does not run, and where the kernel does not say.
func startOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything; what follows it does not.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

func (i identity) alive() bool {
	return i.start != "" && i.boot != "" && i.boot == boot() && startOf(i.pid) == i.start
}

// newID makes an owner's id of the process and of something that no other has.
func newID() string {
	i := self()
	return fmt.Sprintf("%d-%s-%s-%s", i.pid, i.start, i.boot, uuid.NewString()[:bootDigits])
}

// identityOf reads an id; one that newID did not make is of no process.
func identityOf(id string) identity {
	f := strings.Split(id, "-")
	if len(f) != 4 {
		return identity{}
	}
	pid, err := strconv.Atoi(f[0])
	if err != nil || pid <= 0 {
		return identity{}
	}
	return identity{pid, f[1], f[2]}
}

// hostID is made once per state directory and machine. A directory that came from
// another machine gets another id: what the first one runs is not ours to judge.
func hostID(state, machine string) (string, error) {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", err
	}
	path, of := filepath.Join(state, "host"), filepath.Join(state, "machine")
	if b, err := os.ReadFile(of); err == nil && machine != "" && string(b) != machine {
		if err := moved(path, of, machine); err != nil {
			return "", err
		}
	}
	for _, f := range []struct{ path, content string }{{path, uuid.NewString()}, {of, machine}} {
		if err := makeOnce(f.path, f.content); err != nil {
			return "", err
		}
	}
	b, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(b)); id != "" || err != nil {
		return id, err
	}
	return "", fmt.Errorf("%s is empty: remove it", path)
}

// moved forgets the id of another machine, unless another process did.
func moved(path, of, machine string) (err error) {
	lock := flock.New(of + ".lock")
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	b, err := os.ReadFile(of)
	if err != nil || string(b) == machine {
		return err
	}
	return errors.Join(os.Remove(path), os.Remove(of), makeOnce(path, uuid.NewString()), makeOnce(of, machine))
}

// makeOnce links a complete file into its place: of several processes that start
// together the first wins, and none ever reads half of one.
func makeOnce(path, content string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// thisMachine is an id of the machine that can be shown, "" when it has none.
func thisMachine() string {
	b, err := os.ReadFile("/etc/machine-id")
	id := strings.TrimSpace(string(b))
	if err != nil || id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("harborgate " + id))
	return hex.EncodeToString(sum[:16])
}
