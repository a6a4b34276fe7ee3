// Package providers holds the contract between Harborgate and the places where
// sandboxes run. It knows nothing of tasks, trials or rewards.
//
// The life of a sandbox, in order:
//
//	p.Check            once, before anything is queued
//	p.Create           all or nothing; the sandbox is usable when it returns
//	s.Exec/Upload/…    any number, concurrently
//	s.Destroy          once is enough, twice is fine, also while commands run
//
// Everything that policy decides (rate limits, retries, logs and metrics) lives
// in decorators around a driver, so a driver stays thin. Optional abilities are
// interfaces found with As, which looks through decorators.
//
// Every driver passes the suite in providers/providertest.
package providers

import (
	"context"
	"io"
	"net"
	"time"
)

// A Provider makes and removes sandboxes. All methods may be called concurrently.
// Every error is a *Error, or a context error, or wraps one of the two.
type Provider interface {
	// Info says what the provider is called and what it can do. It is static: no
	// I/O, and the same answer every time.
	Info() Info

	// Check finds out whether the provider can be used: reachable, credentials
	// good, version known. It is cheap, makes nothing, and its error tells the
	// user what to do next.
	Check(ctx context.Context) error

	// Create makes one sandbox and returns when commands can run in it. On error
	// nothing is left behind, also when ctx ends half-way or the backend answers
	// late. A name that is taken is KindAlreadyExists. Nobody repeats a Create.
	Create(ctx context.Context, spec Spec) (Sandbox, error)

	// List returns everything that this provider holds and that matches, made by
	// whichever process: sandboxes (running or not) and what belongs to them
	// (networks, volumes).
	List(ctx context.Context, sel Selector) ([]Resource, error)

	// Destroy removes a resource by id, with all that belongs to it. It needs no
	// live handle, and an id that is not there is success.
	Destroy(ctx context.Context, id ID) error

	// Close releases the provider's own connections. It does not touch sandboxes.
	Close() error
}

// ID names a resource within its provider.
type ID string

// Info describes a provider.
type Info struct {
	// Name is the configured name ("docker", "pool-2"), Type the driver's ("docker").
	Name string
	Type string
	Can  Capabilities
}

// Capabilities are what a driver declares. The suite holds them against the
// interfaces that it implements and against what it does.
type Capabilities struct {
	Sources  []SourceKind  `json:"sources"`
	Networks []NetworkMode `json:"networks"`

	// Limits that the provider enforces when a Spec sets them.
	CPU    bool `json:"cpu"`
	Memory bool `json:"memory"`
	PIDs   bool `json:"pids"`
	Disk   bool `json:"disk"`

	Mounts bool `json:"mounts"` // host directories can be mounted
	Users  bool `json:"users"`  // commands can run as other users
	TTY    bool `json:"tty"`

	// Optional interfaces, see As.
	Snapshots bool `json:"snapshots"` // Snapshotter
	Builds    bool `json:"builds"`    // ImageBuilder
	Attach    bool `json:"attach"`    // Attacher
	Stops     bool `json:"stops"`     // Stopper
	Costs     bool `json:"costs"`     // Coster
	Dials     bool `json:"dials"`     // Dialer
	Sizes     bool `json:"sizes"`     // Sizer
}

// HasSource reports whether sandboxes can be made from k.
func (c Capabilities) HasSource(k SourceKind) bool { return has(c.Sources, k) }

// HasNetwork reports whether m can be enforced.
func (c Capabilities) HasNetwork(m NetworkMode) bool { return has(c.Networks, m) }

func has[T comparable](list []T, x T) bool {
	for _, y := range list {
		if y == x {
			return true
		}
	}
	return false
}

// Selector chooses resources. Zero fields match everything; Labels must all be
// equal, and a value of "" asks only that the label is there.
type Selector struct {
	Labels     map[string]string
	NamePrefix string
}

// Matches reports whether a resource with this name and these labels is chosen.
func (s Selector) Matches(name string, labels map[string]string) bool {
	if len(name) < len(s.NamePrefix) || name[:len(s.NamePrefix)] != s.NamePrefix {
		return false
	}
	for k, want := range s.Labels {
		got, ok := labels[k]
		if !ok || want != "" && got != want {
			return false
		}
	}
	return true
}

// ResourceKind tells sandboxes from what belongs to them.
type ResourceKind string

// Kinds of resources that List returns.
const (
	ResourceSandbox ResourceKind = "sandbox"
	ResourceNetwork ResourceKind = "network"
	ResourceVolume  ResourceKind = "volume"
)

// Resource is one entry of List.
type Resource struct {
	ID      ID
	Kind    ResourceKind
	Name    string
	Labels  map[string]string
	Created time.Time
	State   string // the provider's own word ("running", "exited")
}

// Snapshotter is implemented by providers that can keep a sandbox's file system
// and start others from it.
type Snapshotter interface {
	// Snapshot keeps the file system of a sandbox in which nothing runs. The
	// sandbox goes on unchanged. A sandbox from the snapshot has the entrypoint, user,
	// working directory and environment of the image that the first one came from, and
	// nothing of that one's own Spec. KindUnsupported is for backends that cannot after all.
	Snapshot(ctx context.Context, id ID, name string, labels map[string]string) (ref string, err error)
	// InspectSnapshot returns KindNotFound when the snapshot is not present, and
	// KindUnsupported where Snapshot would.
	InspectSnapshot(ctx context.Context, ref string) (Image, error)
	// DeleteSnapshot removes a snapshot. Not there is success; one in use is KindDenied
	// where it cannot go while it is.
	DeleteSnapshot(ctx context.Context, ref string) error
}

// ImageBuilder is implemented by providers that make images themselves.
// Use it through snapshots.Store.Ensure, which keeps two builds of the same
// thing from running at once.
type ImageBuilder interface {
	// BuildImage builds a context directory of this host. A failing build is
	// KindInvalid and its message carries the tail of the build log.
	BuildImage(ctx context.Context, b Build) (Image, error)
	// PullImage makes the image of a reference present, from the provider's own
	// store when it is there. An unknown reference is KindNotFound.
	PullImage(ctx context.Context, ref string, progress io.Writer) (Image, error)
	// InspectImage returns KindNotFound when the image is not present.
	InspectImage(ctx context.Context, ref string) (Image, error)
	// RemoveImage removes an image that BuildImage made. Not there is success;
	// an image in use is KindDenied.
	RemoveImage(ctx context.Context, id string) error
}

// ImageLister finds images by labels, those in use too. A value of "" asks only
// that the label is there.
type ImageLister interface {
	ListImages(ctx context.Context, labels map[string]string) ([]Image, error)
}

// Build is what BuildImage builds.
type Build struct {
	ContextDir string            // directory on this host
	Dockerfile string            // relative to ContextDir; "" is "Dockerfile"
	Tag        string            // name for humans; never used to find the image
	Labels     map[string]string // labels of the image
	NoCache    bool
	Progress   io.Writer // plain text, may be nil; one goroutine writes
}

// Image is a built or pulled image.
type Image struct {
	ID     string // content id, valid as Source.Image
	OS     string // "linux"
	Arch   string // Go's name: "amd64"
	User   string
	Labels map[string]string
	Bytes  int64
	Tags   []string // names that lead to it, where the provider knows them
	Parent string   // id of the image whose sandbox it was committed of; of ListImages, where known
}

// Attacher opens an interactive shell.
type Attacher interface {
	Attach(ctx context.Context, id ID, cmd Command) (ExitStatus, error)
}

// Stopper can stop a sandbox and keep its disk.
type Stopper interface {
	Stop(ctx context.Context, id ID) error
	Start(ctx context.Context, id ID) (Sandbox, error)
}

// Coster knows what a sandbox costs.
type Coster interface {
	// CostPerHour is in US dollars, by the provider's list price for this spec.
	CostPerHour(spec Spec) (float64, bool)
}

// As finds an optional interface in p or in what p decorates.
// Decorators implement Unwrap() Provider.
func As[T any](p Provider) (T, bool) {
	for p != nil {
		if t, ok := p.(T); ok {
			return t, true
		}
		u, ok := p.(interface{ Unwrap() Provider })
		if !ok {
			break
		}
		p = u.Unwrap()
	}
	var zero T
	return zero, false
}

// Sizer knows how much the provider has in total: the host of a local engine.
// Declared CPU and memory of running trials are held against it.
type Sizer interface {
	Size(ctx context.Context) (Resources, error)
}

// Dialer reaches a port that listens inside a sandbox.
type Dialer interface {
	Dial(ctx context.Context, id ID, port int) (net.Conn, error)
}
