package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Info describes a node. It implements fs.FileInfo; Sys returns the Info.
type Info struct {
	Base     string
	Bytes    int64
	Bits     fs.FileMode
	Changed  time.Time
	UID, GID int
	Ino      uint64
	Links    int
	Target   string // of a link
	Device   string // of a device
}

// Name returns the last element of the path that was asked for.
func (i Info) Name() string { return i.Base }

// Size returns the length of a file in bytes.
func (i Info) Size() int64 { return i.Bytes }

// Mode returns type and permission bits.
func (i Info) Mode() fs.FileMode { return i.Bits }

// ModTime returns when the content changed last.
func (i Info) ModTime() time.Time { return i.Changed }

// IsDir reports whether the node is a directory.
func (i Info) IsDir() bool { return i.Bits.IsDir() }

// Sys returns the Info itself.
func (i Info) Sys() any { return i }

func (n *Node) info(base string) Info {
	return Info{
		Base: base, Bytes: int64(len(n.content)), Bits: n.mode, Changed: n.mtime, UID: n.uid, GID: n.gid,
		Ino: n.ino, Links: n.links, Target: n.target, Device: n.device,
	}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// Stat describes what is at p; follow says whether a link there is followed.
func (f *FS) Stat(c Cred, p string, follow bool) (Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	at, err := f.existing(c, "stat", p, follow)
	if err != nil {
		return Info{}, err
	}
	return at.node.info(path.Base(p)), nil
}

// ReadDir lists a directory in the order of names.
func (f *FS) ReadDir(c Cred, p string) ([]Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	at, err := f.existing(c, "readdir", p, true)
	if err != nil {
		return nil, err
	}
	n := at.node
	switch {
	case !n.mode.IsDir():
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: syscall.ENOTDIR}
	case !c.Allows(n.mode, n.uid, n.gid, 4):
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: syscall.EACCES}
	}
	kids := n.children()
	out := make([]Info, 0, len(kids))
	for _, name := range slices.Sorted(maps.Keys(kids)) {
		out = append(out, kids[name].info(name))
	}
	return out, nil
}

// ReadFile returns a copy of a file's content.
func (f *FS) ReadFile(c Cred, p string) ([]byte, error) {
	h, err := f.Open(c, p, syscall.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if !h.info.Bits.IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: p, Err: syscall.EINVAL}
	}
	return io.ReadAll(h)
}

// Open opens p with the flags of open(2). Directories open for reading only and
// cannot be read; what FIFOs and devices do is the caller's business, see
// File.Info and Aux.
func (f *FS) Open(c Cred, p string, flags int, perm fs.FileMode) (*File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.find(c, p, flags&syscall.O_NOFOLLOW == 0)
	if err == nil {
		at, err = f.openable(c, at, flags, perm)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p, Err: err}
	}
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		at.node = f.own(at)
	}
	if flags&syscall.O_TRUNC != 0 && at.node.mode.IsRegular() && flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		at.node.content = nil
		at.node.mtime = f.now()
	}
	return &File{fs: f, node: at.node, flags: flags, info: at.node.info(path.Base(p))}, nil
}

func (f *FS) openable(c Cred, at spot, flags int, perm fs.FileMode) (spot, error) {
	access := flags & syscall.O_ACCMODE
	want := map[int]fs.FileMode{syscall.O_RDONLY: 4, syscall.O_WRONLY: 2, syscall.O_RDWR: 6}[access]
	switch {
	case at.node == nil && flags&syscall.O_CREAT == 0:
		return at, syscall.ENOENT
	case at.node == nil:
		if err := writable(c, at.dir); err != nil {
			return at, err
		}
		at.node = f.node(perm.Perm(), c)
		f.add(at, at.node)
	case flags&syscall.O_EXCL != 0:
		return at, syscall.EEXIST
	case at.node.mode&fs.ModeSymlink != 0:
		return at, syscall.ELOOP
	case at.node.mode.IsDir() && access != syscall.O_RDONLY:
		return at, syscall.EISDIR
	case !c.Allows(at.node.mode, at.node.uid, at.node.gid, want):
		return at, syscall.EACCES
	}
	return at, nil
}

// Aux returns what the FIFO behind h carries, made by first use of the FIFO.
func (f *FS) Aux(h *File, first func() any) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.node.aux == nil {
		h.node.aux = first()
	}
	return h.node.aux
}

// File is an open file with a position. Its methods may be called concurrently.
type File struct {
	fs    *FS
	node  *Node
	flags int
	info  Info

	mu  sync.Mutex // guards off
	off int64
}

// Info describes the file as it was when opened.
func (h *File) Info() Info { return h.info }

// Read reads at the position.
func (h *File) Read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fs.mu.RLock()
	defer h.fs.mu.RUnlock()
	switch {
	case h.node.mode.IsDir():
		return 0, syscall.EISDIR
	case h.flags&syscall.O_ACCMODE == syscall.O_WRONLY:
		return 0, syscall.EBADF
	case h.off >= int64(len(h.node.content)):
		return 0, io.EOF
	}
	n := copy(b, h.node.content[h.off:])
	h.off += int64(n)
	return n, nil
}

// Write writes at the position, or at the end when opened for appending.
func (h *File) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.flags&syscall.O_ACCMODE == syscall.O_RDONLY {
		return 0, syscall.EBADF
	}
	if h.flags&syscall.O_APPEND != 0 {
		h.off = int64(len(h.node.content))
	}
	end := h.off + int64(len(b))
	if grow := end - int64(len(h.node.content)); grow > 0 {
		h.node.content = append(h.node.content, make([]byte, grow)...)
	}
	copy(h.node.content[h.off:end], b)
	h.off = end
	h.node.mtime = h.fs.now()
	return len(b), nil
}
