package vfs

import (
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
)

// Mkdir makes one directory.
func (f *FS) Mkdir(c Cred, p string, perm fs.FileMode) error {
	return f.create(c, "mkdir", p, fs.ModeDir|perm&(fs.ModePerm|fs.ModeSticky), func(*Node) {})
}

// MkdirAll makes a directory and its parents as root. What is there stays.
func (f *FS) MkdirAll(p string, perm fs.FileMode) error {
	made := "/"
	for name := range strings.SplitSeq(p, "/") {
		made = path.Join(made, name)
		info, err := f.Stat(Root(), made, true)
		switch {
		case err == nil && info.IsDir():
			continue
		case err == nil:
			return &fs.PathError{Op: "mkdir", Path: made, Err: syscall.ENOTDIR}
		}
		if err := f.Mkdir(Root(), made, perm); err != nil {
			return err
		}
	}
	return nil
}

// Symlink makes a link at p that points to target.
func (f *FS) Symlink(c Cred, target, p string) error {
	return f.create(c, "symlink", p, fs.ModeSymlink|0o777, func(n *Node) { n.target = target })
}

// Mkfifo makes a named pipe.
func (f *FS) Mkfifo(c Cred, p string, perm fs.FileMode) error {
	return f.create(c, "mkfifo", p, fs.ModeNamedPipe|perm.Perm(), func(*Node) {})
}

// Mkdev makes a character device that Open gives to the caller by name.
func (f *FS) Mkdev(p, device string, perm fs.FileMode) error {
	return f.create(Root(), "mknod", p, fs.ModeDevice|fs.ModeCharDevice|perm.Perm(), func(n *Node) { n.device = device })
}

// Mount puts a generated node at p.
func (f *FS) Mount(p string, n *Node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.free(Root(), "mount", p)
	if err == nil {
		f.add(at, n)
	}
	return err
}

func (f *FS) create(c Cred, op, p string, mode fs.FileMode, fill func(*Node)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.free(c, op, p)
	if err != nil {
		return err
	}
	n := f.node(mode, c)
	fill(n)
	f.add(at, n)
	return nil
}

// Link gives an existing file a second name. Links are not followed.
func (f *FS) Link(c Cred, old, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, err := f.existing(c, "link", old, false)
	if err != nil {
		return err
	}
	if from.node.mode.IsDir() {
		return &fs.PathError{Op: "link", Path: old, Err: syscall.EPERM}
	}
	at, err := f.free(c, "link", p)
	if err != nil {
		return err
	}
	n := f.own(from)
	n.links++
	f.add(at, n)
	return nil
}

// Remove removes one name: a file, a link, or an empty directory.
func (f *FS) Remove(c Cred, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.find(c, strings.TrimRight(p, "/"), false)
	switch {
	case err != nil:
	case at.node == nil:
		err = syscall.ENOENT
	case at.name == "":
		err = syscall.EBUSY
	case len(at.node.children()) > 0:
		err = syscall.ENOTEMPTY
	default:
		err = writable(c, at.dir)
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: p, Err: err}
	}
	f.own(at).links--
	delete(at.dir.kids, at.name)
	at.dir.mtime = f.now()
	return nil
}

// Rename moves a name. A file or an empty directory in the way is replaced by
// its like.
func (f *FS) Rename(c Cred, old, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, err := f.find(c, strings.TrimRight(old, "/"), false)
	if err == nil && (from.node == nil || from.name == "") {
		err = syscall.ENOENT
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: old, Err: err}
	}
	to, err := f.find(c, strings.TrimRight(p, "/"), false)
	if err == nil {
		err = f.mayReplace(c, from, to)
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: p, Err: err}
	}
	delete(from.dir.kids, from.name)
	f.add(to, from.node)
	return nil
}

func (f *FS) mayReplace(c Cred, from, to spot) error {
	switch {
	case f.isBelow(to.dir, from.node):
		return syscall.EINVAL
	case to.name == "":
		return syscall.EBUSY
	case to.node != nil && to.node.mode.IsDir() && !from.node.mode.IsDir():
		return syscall.EISDIR
	case to.node != nil && from.node.mode.IsDir() && !to.node.mode.IsDir():
		return syscall.ENOTDIR
	case to.node != nil && len(to.node.children()) > 0:
		return syscall.ENOTEMPTY
	}
	if err := writable(c, from.dir); err != nil {
		return err
	}
	return writable(c, to.dir)
}

// isBelow reports whether dir is n or lies in it.
func (f *FS) isBelow(dir, n *Node) bool {
	for d := dir; d != nil; d = d.parent {
		if d == n {
			return true
		}
		if d == f.root {
			break
		}
	}
	return false
}

// Chmod sets the permission, setuid, setgid and sticky bits.
func (f *FS) Chmod(c Cred, p string, mode fs.FileMode) error {
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	return f.modify(c, "chmod", p, true, func(n *Node) { n.mode = n.mode&^bits | mode&bits })
}

// Chown sets the owner; only root may. Links are not followed.
func (f *FS) Chown(c Cred, p string, uid, gid int) error {
	if c.UID != 0 {
		return &fs.PathError{Op: "chown", Path: p, Err: syscall.EPERM}
	}
	return f.modify(c, "chown", p, false, func(n *Node) { n.uid, n.gid = uid, gid })
}

// Chtimes sets the time of the last change.
func (f *FS) Chtimes(c Cred, p string, t time.Time) error {
	return f.modify(c, "utimes", p, false, func(n *Node) { n.mtime = t })
}

func (f *FS) modify(c Cred, op, p string, follow bool, change func(*Node)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, err := f.existing(c, op, p, follow)
	switch {
	case err != nil:
		return err
	case c.UID != 0 && c.UID != at.node.uid:
		return &fs.PathError{Op: op, Path: p, Err: syscall.EPERM}
	}
	change(f.own(at))
	return nil
}

// WriteFile makes or replaces a file as root, with its parents.
func (f *FS) WriteFile(p string, content []byte, perm fs.FileMode) error {
	if err := f.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	if err := f.Remove(Root(), p); err != nil && !isNotExist(err) {
		return err
	}
	return f.create(Root(), "open", p, perm, func(n *Node) { n.content = append([]byte(nil), content...) })
}
