package fake

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake/internal/kernel"
	"harborgate/providers/fake/internal/tools"
	"harborgate/providers/fake/internal/vfs"
)

var errNoSandbox = errors.New("there is no such sandbox")

// World is what exists: sandboxes, images, snapshots, and who answers on the
// network outside. Providers that share a World see the same. All methods may be
// called concurrently.
type World struct {
	programs map[string]kernel.Program

	mu        sync.Mutex // guards what follows
	base      *vfs.FS    // of images that nobody described
	boxes     map[providers.ID]*box
	names     map[string]providers.ID
	images    map[string]*image
	snapshots map[string]*image
	hosts     map[string]func(net.Conn)
	faults    []*armed
	chance    Chance
	random    *rand.Rand // nil is no chance
	lastID    int
}

// Image describes what a reference stands for.
type Image struct {
	Missing    bool     // the reference is unknown
	Entrypoint []string // runs first; a program that never ends is appended to its arguments
	Env        map[string]string
	User       string
	Workdir    string
	Files      map[string]string // absolute path to content, mode 0755
}

// image is an Image with its tree.
type image struct {
	Image
	id     string
	ref    string
	fs     *vfs.FS
	labels map[string]string
}

func (i *image) public() providers.Image {
	return providers.Image{ID: i.id, OS: "linux", Arch: "amd64", User: i.User, Labels: i.labels, Bytes: 1 << 20}
}

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{
		programs: tools.Programs(), base: baseTree(), boxes: map[providers.ID]*box{}, names: map[string]providers.ID{}, images: map[string]*image{},
		snapshots: map[string]*image{}, hosts: map[string]func(net.Conn){},
	}
}

// baseTree is the system of an image that nobody described.
func baseTree() *vfs.FS {
	f := vfs.New(time.Now)
	files := map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
			"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":      "root:x:0:\ndaemon:x:1:\nstaff:x:50:\nwww-data:x:33:\nusers:x:100:\nnogroup:x:65534:\n",
		"/etc/hostname":   "fake\n",
		"/etc/hosts":      "127.0.0.1 localhost\n",
		"/etc/os-release": "ID=fake\nPRETTY_NAME=\"Fake GNU/Linux\"\n",
	}
	err := tools.Install(f)
	for name, content := range files {
		err = errors.Join(err, f.WriteFile(name, []byte(content), 0o644))
	}
	for _, dir := range []string{"/root", "/home", "/opt", "/tmp", "/usr/local/bin", "/var/tmp", "/srv"} {
		err = errors.Join(err, f.MkdirAll(dir, 0o755))
	}
	if err != nil {
		panic(fmt.Sprintf("fake: the base tree is wrong: %v", err)) // constant content
	}
	return f
}

// SetImage says what a reference stands for.
func (w *World) SetImage(ref string, img Image) error {
	made := &image{Image: img, id: ref, ref: ref, fs: w.base.Clone()}
	for name, content := range img.Files {
		if err := made.fs.WriteFile(name, []byte(content), 0o755); err != nil {
			return fmt.Errorf("image %s: %w", ref, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.images[ref] = made
	return nil
}

// Serve answers at an address beyond the sandboxes, as "192.0.2.7:80" or
// "api.example:443". The handler owns the connection.
func (w *World) Serve(addr string, handle func(net.Conn)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[addr] = handle
}

// outside is the network of a sandbox, nil when it has none.
func (w *World) outside(n providers.Network) kernel.Dialer {
	if n.ModeOrPublic() == providers.NetworkNone {
		return nil
	}
	return func(host string, port int) (func(net.Conn), error) {
		if n.Mode == providers.NetworkAllowList && !slices.Contains(n.Hosts, host) {
			return nil, syscall.ENETUNREACH
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if h, ok := w.hosts[net.JoinHostPort(host, strconv.Itoa(port))]; ok {
			return h, nil
		}
		return nil, syscall.EHOSTUNREACH
	}
}

// image finds a reference. One that nobody described is made from the base tree.
func (w *World) image(ref string) (*image, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	img, ok := w.images[ref]
	switch {
	case ok && img.Missing:
		return nil, providers.Errorf(providers.KindNotFound, "pull", "image %q is not known; check its name and tag", ref)
	case ok:
		return img, nil
	case strings.ContainsAny(ref, " \t\n") || ref == "":
		return nil, providers.Errorf(providers.KindInvalid, "pull", "%q is not an image reference", ref)
	}
	img = &image{id: ref, ref: ref, fs: w.base}
	w.images[ref] = img
	return img, nil
}

func (w *World) box(id providers.ID) *box {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.boxes[id]
}

func (w *World) nextID() providers.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastID++
	return providers.ID("fake-" + strconv.Itoa(w.lastID))
}

// add takes in a sandbox that is about to be made.
func (w *World) add(b *box) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other, taken := w.names[b.spec.Name]; taken {
		return providers.Errorf(providers.KindAlreadyExists, "create", "the name %s is taken by %s", b.spec.Name, other)
	}
	w.boxes[b.id], w.names[b.spec.Name] = b, b.id
	return nil
}

func (w *World) forget(b *box) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.boxes[b.id] == b { // its name may be another's by now
		delete(w.boxes, b.id)
		delete(w.names, b.spec.Name)
	}
}

func (w *World) all() []*box {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.boxes))
}

// Kill ends a sandbox as if its first process had died.
func (w *World) Kill(id providers.ID, d providers.Death) {
	if b := w.box(id); b != nil {
		b.die(d)
	}
}

// Left returns how many sandboxes there are.
func (w *World) Left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.boxes)
}

// Clear destroys all sandboxes.
func (w *World) Clear() {
	for _, b := range w.all() {
		b.destroy()
	}
}
