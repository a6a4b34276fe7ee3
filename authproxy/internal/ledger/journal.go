package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"harborgate/internal/atomicfile"
)

// entry is one line of the journal: a reservation, its settlement, or what an
// account had come to when the journal was last rewritten.
type entry struct {
	Reserve  uint64   `json:"r,omitempty"`
	Settle   uint64   `json:"s,omitempty"`
	Account  string   `json:"a,omitempty"`
	Accounts []string `json:"as,omitempty"`
	Sum      Sum      `json:"n"`
	Used     int64    `json:"t,omitempty"` // Unix time of an account's last change
}

// journal is a file of entries that grows until it is rewritten. A line is with the kernel when
// write returns, so it outlives the process; sync, behind it and for many lines at
// once, makes it outlive the host. The nil journal keeps nothing.
type journal struct {
	path string
	lock *flock.Flock
	size int64 // of what was written since it was rewritten
	most int64 // before it is rewritten again

	mu   sync.Mutex // held while file changes
	file *os.File
	wake chan struct{} // something is to be synced
	done chan struct{} // the syncing goroutine has ended
}

// fileMode is that of all that the ledger writes.
const fileMode = 0o600

// rewriteAt is how many bytes of entries are gathered before the journal is
// rewritten.
const rewriteAt = 16 << 20

// Open returns a ledger that goes on from the journal at path, which may not exist
// yet. Only one process can have it. What was reserved and never settled counts as
// spent. A last line that was cut off is left out: its request was never sent.
func Open(path string) (*Ledger, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(fileMode))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock ledger %s: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("ledger %s is in use by another process: use its proxy, or another state directory", path)
	}
	l, err := load(path)
	if err == nil {
		err = l.rewrite(path)
	}
	if err != nil {
		_ = lock.Unlock()
		return nil, err
	}
	j := &journal{path: path, lock: lock, most: rewriteAt, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if err := j.open(); err != nil {
		_ = lock.Unlock()
		return nil, err
	}
	l.journal = j
	go l.journal.sync()
	return l, nil
}

// load reads a journal.
func load(path string) (*Ledger, error) {
	l := New()
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	defer f.Close()
	open := map[uint64]entry{}
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // with or without the beginning of a line
		}
		if err != nil {
			return nil, fmt.Errorf("read ledger %s: %w", path, err)
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read ledger %s: line %d cannot be read; what was spent is not known, so nothing more is: repair or remove the file", path, n)
		}
		l.replay(open, e)
	}
	for _, e := range open {
		l.spend(e.Accounts, e.Sum)
	}
	return l, nil
}

// Spent reads what an account has come to by a journal that another process may be
// writing. Open requests count in full. No journal is nothing spent.
func Spent(path, account string) (Sum, error) {
	l, err := load(path)
	if err != nil {
		return Sum{}, err
	}
	return l.Balance(account).Spent, nil
}

// AllSpent reads what all accounts have come to, as Spent does.
func AllSpent(path string) (map[string]Sum, error) {
	l, err := load(path)
	if err != nil {
		return nil, err
	}
	out := map[string]Sum{}
	for name, b := range l.Balances() {
		out[name] = b.Spent
	}
	return out, nil
}

func (l *Ledger) replay(open map[uint64]entry, e entry) {
	switch {
	case e.Account != "":
		l.spend([]string{e.Account}, e.Sum)
		if e.Used != 0 {
			l.accounts[e.Account].used = time.Unix(e.Used, 0)
		}
	case e.Reserve != 0:
		open[e.Reserve] = e
	default:
		l.spend(open[e.Settle].Accounts, e.Sum)
		delete(open, e.Settle)
	}
}

func (l *Ledger) spend(accounts []string, sum Sum) {
	for _, a := range accounts {
		b := l.account(a)
		b.Spent = b.Spent.plus(sum)
	}
}

// rewrite leaves one line for each account that is not forgotten, and one for each
// open reservation.
func (l *Ledger) rewrite(path string) error {
	for name, a := range l.accounts {
		if a.Reserved.IsZero() && time.Since(a.used) > forgotten {
			delete(l.accounts, name)
		}
	}
	return atomicfile.WriteFrom(path, fileMode, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		for name, a := range l.accounts {
			if err := enc.Encode(entry{Account: name, Sum: a.Spent, Used: a.used.Unix()}); err != nil {
				return err
			}
		}
		for _, e := range l.open {
			if err := enc.Encode(e); err != nil {
				return err
			}
		}
		return nil
	})
}

// compact rewrites the journal when it has grown. When that fails, the old one
// stays in use, and grows as much again before the next try.
func (l *Ledger) compact() error {
	j := l.journal
	if j == nil || j.size < j.most {
		return nil
	}
	j.size = 0
	if err := l.rewrite(j.path); err != nil {
		return fmt.Errorf("rewrite the ledger: %w", err)
	}
	return j.open()
}

// open goes on in the file at path.
func (j *journal) open() error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, fileMode)
	if err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.file
	j.file = f
	if old != nil {
		_ = old.Close() // the new one holds all that it held
	}
	return nil
}

// write appends an entry.
func (j *journal) write(e entry) error {
	if j == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	n, err := j.file.Write(append(line, '\n'))
	j.size += int64(n)
	if err != nil {
		return err
	}
	select {
	case j.wake <- struct{}{}:
	default: // a sync is due already
	}
	return nil
}

// syncPause is how long lines gather that are brought to the disk together.
const syncPause = 20 * time.Millisecond

// sync brings to the disk what was written, until wake is closed.
func (j *journal) sync() {
	defer close(j.done)
	for range j.wake {
		j.mu.Lock()
		f := j.file
		j.mu.Unlock()
		_ = f.Sync() // a host that dies now loses the last lines; close reports it
		<-time.After(syncPause)
	}
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	close(j.wake)
	<-j.done
	return errors.Join(j.file.Sync(), j.file.Close(), j.lock.Unlock())
}
