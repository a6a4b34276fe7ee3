package shares

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// book keeps an account in a file that processes change one after the other. There
// are two copies: a change goes to the older one, so that a process that dies
// while it writes leaves the other.
//
//	0        copy: number u64, length u32, checksum u32, JSON
//	half     copy
type book struct {
	mu   sync.Mutex // of this process; the file's lock is of all
	file *os.File
}

const (
	half      = 128 << 10 // some 500 processes
	bookHead  = 16
	lockLimit = 10 * time.Second
)

func openBook(path string) (*book, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 2*half); errors.Is(err, unix.ENOSPC) { // later changes want no room
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &book{file: f}, nil
}

// regular is an error when what has the name of a file of ours is something else. That
// there is nothing, or that it cannot be seen, is for who opens it.
func regular(path string) error {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		fi, err = os.Lstat(path)
	}
	if err != nil || fi.Mode().IsRegular() {
		return nil //nolint:nilerr // see above
	}
	what, known := map[fs.FileMode]string{
		fs.ModeDir: "is a directory", fs.ModeNamedPipe: "is a named pipe", fs.ModeSymlink: "is a link that leads nowhere",
	}[fi.Mode().Type()]
	if !known {
		what = "is no file"
	}
	return fmt.Errorf("%s %s, where harbor keeps a file: remove it", path, what)
}

func (b *book) close() error { return b.file.Close() }

// change lets f change the account, alone on this host. f says whether it did.
func (b *book) change(f func(*account) bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.lock(); err != nil {
		return err
	}
	defer func() { _ = unix.Flock(int(b.file.Fd()), unix.LOCK_UN) }()
	a, number, err := b.read()
	if err != nil {
		return err
	}
	if !f(a) {
		return nil
	}
	return b.write(a, number+1)
}

// lock waits for the file, but not for ever: a process may be stopped while it has it.
func (b *book) lock() error {
	begun := time.Now()
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := unix.Flock(int(b.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Since(begun) > lockLimit:
			return fmt.Errorf("%s is locked for %s by another process: is one stopped?", b.file.Name(), lockLimit)
		}
		<-time.After(pause)
	}
}

// look returns the account as it is, with the number of its change.
func (b *book) look() (*account, error) {
	var a *account
	return a, b.change(func(is *account) bool { a = is; return false })
}

// read returns the newer copy that is whole; of a file that has none, an empty account.
func (b *book) read() (*account, uint64, error) {
	var copies [2]written
	for i := range copies {
		var err error
		if copies[i], err = b.copyAt(int64(i) * half); err != nil {
			return nil, 0, err
		}
	}
	if copies[0].number < copies[1].number {
		copies[0], copies[1] = copies[1], copies[0]
	}
	for _, c := range copies {
		a := &account{}
		if c.text != nil && json.Unmarshal(c.text, a) == nil {
			return a, c.number, nil
		}
	}
	return &account{}, 0, nil
}

// written is one copy of the account; one that is not whole has no text.
type written struct {
	text   []byte
	number uint64
}

func (b *book) copyAt(at int64) (written, error) {
	var head [bookHead]byte
	if _, err := b.file.ReadAt(head[:], at); err != nil {
		return written{}, ignoreEnd(err)
	}
	n := binary.LittleEndian.Uint32(head[8:])
	if n == 0 || n > half-bookHead {
		return written{}, nil
	}
	text := make([]byte, n)
	if _, err := b.file.ReadAt(text, at+bookHead); err != nil {
		return written{}, ignoreEnd(err)
	}
	if crc32.ChecksumIEEE(text) != binary.LittleEndian.Uint32(head[12:]) {
		return written{}, nil
	}
	return written{text, binary.LittleEndian.Uint64(head[:])}, nil
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (b *book) write(a *account, number uint64) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if len(text) > half-bookHead {
		return fmt.Errorf("%s: too many processes share this provider", b.file.Name())
	}
	out := make([]byte, bookHead, bookHead+len(text))
	binary.LittleEndian.PutUint64(out, number)
	binary.LittleEndian.PutUint32(out[8:], uint32(len(text)))
	binary.LittleEndian.PutUint32(out[12:], crc32.ChecksumIEEE(text))
	_, err = b.file.WriteAt(append(out, text...), int64(number%2)*half)
	return err
}
