// Package vfs is a file tree in memory with owners, modes, links, FIFOs and
// generated files. It never touches the host's disk.
//
// Every call takes an absolute path and the credentials of the caller. Errors
// are *fs.PathError around a syscall.Errno, so errors.Is works with both the
// fs errors and the numbers. All methods of FS may be called concurrently.
package vfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxLinks is how many symbolic links one lookup follows, as on Linux.
const maxLinks = 40

// Cred is who asks. UID 0 may do everything.
type Cred struct {
	UID, GID int
	Groups   []int
}

// Root is the all-powerful caller.
func Root() Cred { return Cred{} }

// Allows reports whether c may access a node of this mode and owner; want is a
// mask of 4 (read), 2 (write) and 1 (execute or search).
func (c Cred) Allows(mode fs.FileMode, uid, gid int, want fs.FileMode) bool {
	if c.UID == 0 {
		return want&1 == 0 || mode.IsDir() || mode.Perm()&0o111 != 0
	}
	perm := mode.Perm()
	switch {
	case c.UID == uid:
		perm >>= 6
	case c.GID == gid || slices.Contains(c.Groups, gid):
		perm >>= 3
	}
	return perm&want == want
}

// Node is one file, directory, link or special file. Its fields are guarded by
// the FS that it is in; a generated node belongs to who asked for it.
type Node struct {
	mode     fs.FileMode
	uid, gid int
	mtime    time.Time
	ino      uint64
	links    int
	content  []byte
	target   string
	kids     map[string]*Node
	parent   *Node
	entries  func() map[string]*Node // generated directories
	aux      any                     // what a FIFO carries, see FS.Aux
	device   string
	shared   bool // by several trees: it never changes, see FS.own
}

// Generated makes a read-only file whose content is known when it is looked up.
func Generated(mode fs.FileMode, uid int, content []byte) *Node {
	return &Node{mode: mode, uid: uid, gid: uid, content: content, links: 1}
}

// GeneratedDir makes a directory whose entries are asked for at every lookup.
func GeneratedDir(entries func() map[string]*Node) *Node {
	return &Node{mode: fs.ModeDir | 0o555, entries: entries, links: 1}
}

// GeneratedLink makes a symbolic link.
func GeneratedLink(target string) *Node {
	return &Node{mode: fs.ModeSymlink | 0o777, target: target, links: 1}
}

// FS is one tree.
type FS struct {
	now func() time.Time

	mu      sync.RWMutex // guards the tree
	root    *Node
	nextIno uint64
}

// New makes a tree that has only a root directory. now stamps changes.
func New(now func() time.Time) *FS {
	f := &FS{now: now}
	f.root = f.node(fs.ModeDir|0o755, Root())
	f.root.parent = f.root
	return f
}

func (f *FS) node(mode fs.FileMode, c Cred) *Node {
	f.nextIno++
	n := &Node{mode: mode, uid: c.UID, gid: c.GID, mtime: f.now(), ino: f.nextIno, links: 1}
	if mode.IsDir() {
		n.kids = map[string]*Node{}
	}
	return n
}

func (n *Node) child(name string) *Node {
	if n.entries != nil {
		return n.entries()[name]
	}
	return n.kids[name]
}

func (n *Node) children() map[string]*Node {
	if n.entries != nil {
		return n.entries()
	}
	return n.kids
}

// spot is where a path leads: the directory, the last name, and the node there,
// nil when the name is free. The root has an empty name.
type spot struct {
	dir  *Node
	name string
	node *Node
}

// find resolves p. follow says whether a link in the last place is followed.
// A missing last element is no error; a missing directory before it is ENOENT.
func (f *FS) find(c Cred, p string, follow bool) (spot, error) {
	at := spot{dir: f.root, node: f.root}
	todo := names(p)
	mustBeDir := strings.HasSuffix(p, "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		next, err := step(c, at, name)
		if err != nil {
			return spot{}, err
		}
		asked := len(todo) == 0 && !follow && !mustBeDir // for the link itself
		if !next.isLink() || asked {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return spot{}, syscall.ELOOP
		}
		todo = append(names(next.node.target), todo...)
		if strings.HasPrefix(next.node.target, "/") {
			at = spot{dir: f.root, node: f.root}
		}
	}
	if mustBeDir && at.node != nil && !at.node.mode.IsDir() {
		return spot{}, syscall.ENOTDIR
	}
	return at, nil
}

// names splits a path into the names that mean a step.
func names(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" || s == "." })
}

func (s spot) isLink() bool { return s.node != nil && s.node.mode&fs.ModeSymlink != 0 }

// step goes from a directory to one of its names.
func step(c Cred, at spot, name string) (spot, error) {
	dir := at.node
	switch {
	case dir == nil:
		return spot{}, syscall.ENOENT
	case !dir.mode.IsDir():
		return spot{}, syscall.ENOTDIR
	case !c.Allows(dir.mode, dir.uid, dir.gid, 1):
		return spot{}, syscall.EACCES
	case len(name) > 255:
		return spot{}, syscall.ENAMETOOLONG
	}
	if name == ".." {
		up := dir.parent
		if up == nil {
			up = dir
		}
		return spot{dir: up, node: up}, nil
	}
	node := dir.child(name)
	if node != nil && node.parent == nil && node.mode.IsDir() {
		node.parent = dir
	}
	return spot{dir: dir, name: name, node: node}, nil
}

// existing is find for a path that must be there.
func (f *FS) existing(c Cred, op, p string, follow bool) (spot, error) {
	at, err := f.find(c, p, follow)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return spot{}, &fs.PathError{Op: op, Path: p, Err: err}
	}
	return at, nil
}

// free is find for a name that must be free, in a directory that c may change.
func (f *FS) free(c Cred, op, p string) (spot, error) {
	at, err := f.find(c, strings.TrimRight(p, "/"), false)
	switch {
	case err != nil:
	case at.node != nil || at.name == "":
		err = syscall.EEXIST
	default:
		err = writable(c, at.dir)
	}
	if err != nil {
		return spot{}, &fs.PathError{Op: op, Path: p, Err: err}
	}
	return at, nil
}

func writable(c Cred, dir *Node) error {
	switch {
	case dir.entries != nil:
		return syscall.EROFS
	case !c.Allows(dir.mode, dir.uid, dir.gid, 3):
		return syscall.EACCES
	}
	return nil
}

func (f *FS) add(at spot, n *Node) {
	at.dir.kids[at.name] = n
	at.dir.mtime = f.now()
	if n.mode.IsDir() {
		n.parent = at.dir
	}
}

// Real returns the path of p without links. p must exist.
func (f *FS) Real(c Cred, p string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	at, err := f.find(c, p, true)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return "", &fs.PathError{Op: "realpath", Path: p, Err: err}
	}
	way := []string{at.name}
	for d := at.dir; at.node != f.root && d != f.root; d = d.parent {
		way = append(way, nameIn(d.parent, d))
	}
	slices.Reverse(way)
	return path.Clean("/" + strings.Join(way, "/")), nil
}

func nameIn(dir, n *Node) string {
	for name, kid := range dir.children() {
		if kid == n {
			return name
		}
	}
	return ""
}

// Clone returns an independent copy of the tree. Generated directories are left
// out: they belong to one machine. FIFOs are copied empty.
func (f *FS) Clone() *FS { return f.copy(false) }

// Fork is a Clone of a tree that changes no more. Files and links stay shared until
// the copy changes them; who reads one meanwhile goes on with what it was.
func (f *FS) Fork() *FS { return f.copy(true) }

func (f *FS) copy(share bool) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := New(f.now)
	out.nextIno = f.nextIno
	c := copier{share: share, seen: map[*Node]*Node{}}
	out.root = c.copyOf(f.root)
	out.root.parent = out.root
	return out
}

// copier copies nodes; seen keeps the names of one file together.
type copier struct {
	share bool
	seen  map[*Node]*Node
}

func (c copier) copyOf(n *Node) *Node {
	if done, ok := c.seen[n]; ok {
		return done
	}
	if c.share && n.sharable() {
		if !n.shared { // other trees may be reading it
			n.shared = true
		}
		return n
	}
	out := n.copy()
	if n.links > 1 {
		c.seen[n] = out
	}
	if n.kids == nil {
		return out
	}
	out.kids = make(map[string]*Node, len(n.kids))
	for name, kid := range n.kids {
		if kid.entries != nil {
			continue
		}
		copied := c.copyOf(kid)
		out.kids[name] = copied
		if copied.mode.IsDir() {
			copied.parent = out
		}
	}
	return out
}

// sharable reports whether n has one name and nothing of its own tree.
func (n *Node) sharable() bool {
	return n.links == 1 && n.aux == nil && n.kids == nil && n.entries == nil && n.mode&fs.ModeNamedPipe == 0
}

// copy is n without its directory's entries and its place.
func (n *Node) copy() *Node {
	return &Node{
		mode: n.mode, uid: n.uid, gid: n.gid, mtime: n.mtime, ino: n.ino, links: n.links,
		content: slices.Clone(n.content), target: n.target, device: n.device,
	}
}

// own returns the node at a place for changing it.
func (f *FS) own(at spot) *Node {
	if !at.node.shared {
		return at.node
	}
	at.dir.kids[at.name] = at.node.copy()
	return at.dir.kids[at.name]
}
