package providers

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Spec says what sandbox to make. It holds no secret: providers may show it to
// anybody (docker inspect, a cloud console).
type Spec struct {
	// Name is unique per try, made by Name. Providers use it as the resource's
	// name and find their own unclear creates by it.
	Name    string
	Source  Source
	Network Network
	Mounts  []Mount

	User    string            // default user of commands; "" is the image's
	Workdir string            // default directory of commands; "" is the image's
	Env     map[string]string // of the sandbox's first process and of every command

	Resources Resources
	// Deadline is when the try is over for good: the sum of its timeouts and a
	// margin. Providers that can destroy sandboxes by themselves use it.
	Deadline time.Time
	Labels   Labels

	// Idle leaves the image's entrypoint out: nothing runs but what Exec starts.
	Idle bool
	// NoHelper asks for a sandbox without harbor-inside. Every driver refuses it
	// (KindUnsupported): exec, transfers and the relay depend on the helper.
	NoHelper bool

	// Progress is told about slow steps (image pull), in plain text; may be nil.
	Progress func(line string)
}

// SourceKind names what a sandbox is made from.
type SourceKind string

// Source kinds. Exactly one field of Source is set.
const (
	SourceImage    SourceKind = "image"
	SourceBuild    SourceKind = "build"
	SourceCompose  SourceKind = "compose"
	SourceSnapshot SourceKind = "snapshot"
)

// Source is what a sandbox is made from. Exactly one field is set.
type Source struct {
	Image    string // reference or id
	Build    *Build
	Compose  *Compose
	Snapshot string
}

// Compose is a compose project; the sandbox is its service "main".
type Compose struct {
	Files      []string
	ProjectDir string
}

// Kind returns which field is set, or an error when not exactly one is.
func (s Source) Kind() (SourceKind, error) {
	var kinds []SourceKind
	if s.Image != "" {
		kinds = append(kinds, SourceImage)
	}
	if s.Build != nil {
		kinds = append(kinds, SourceBuild)
	}
	if s.Compose != nil {
		kinds = append(kinds, SourceCompose)
	}
	if s.Snapshot != "" {
		kinds = append(kinds, SourceSnapshot)
	}
	if len(kinds) != 1 {
		return "", fmt.Errorf("want exactly one source, got %d %v", len(kinds), kinds)
	}
	return kinds[0], nil
}

// NetworkMode is how much network a sandbox has.
type NetworkMode string

// Network modes, in Harbor's spelling.
const (
	NetworkPublic    NetworkMode = "public"
	NetworkNone      NetworkMode = "no-network"
	NetworkAllowList NetworkMode = "allowlist"
)

// Network is a sandbox's network policy.
type Network struct {
	Mode  NetworkMode // "" is public
	Hosts []string    // only with the allow list
}

// Mount shows a directory of the host inside the sandbox.
type Mount struct {
	Source   string // absolute path on the host
	Target   string // absolute path inside
	ReadOnly bool
}

// Resources are limits; zero is no limit.
type Resources struct {
	CPUs      float64 // cores, fractions allowed
	MemoryMiB int64
	DiskMiB   int64
	PIDs      int64
	GPUs      int
}

// Label keys. Every resource carries all of them.
const (
	LabelOwner   = "harborgate.owner"
	LabelHost    = "harborgate.host"
	LabelJob     = "harborgate.job"
	LabelTrial   = "harborgate.trial"
	LabelExpires = "harborgate.expires"
)

// Labels say whose a resource is.
type Labels struct {
	Owner   string    // id of the harbor process, see internal/shares
	Host    string    // id of the host that the owner runs on
	Job     string    // job name, for humans and for cleanup by job
	Trial   string    // trial name, for humans
	Expires time.Time // when anybody may remove it
}

// Map returns the labels in the form that providers store.
func (l Labels) Map() map[string]string {
	return map[string]string{
		LabelOwner:   l.Owner,
		LabelHost:    l.Host,
		LabelJob:     l.Job,
		LabelTrial:   l.Trial,
		LabelExpires: strconv.FormatInt(l.Expires.Unix(), 10),
	}
}

// ParseLabels reads what Map wrote. ok is false when one is missing or wrong.
func ParseLabels(m map[string]string) (l Labels, ok bool) {
	sec, err := strconv.ParseInt(m[LabelExpires], 10, 64)
	l = Labels{Owner: m[LabelOwner], Host: m[LabelHost], Job: m[LabelJob], Trial: m[LabelTrial], Expires: time.Unix(sec, 0)}
	return l, err == nil && l.Owner != "" && l.Host != ""
}

// NamePrefix starts every name that Name makes.
const NamePrefix = "hg-"

var namePattern = regexp.MustCompile(`^hg-[a-z2-7]{16}$`)

// Name makes the name of a try's sandbox from parts that are unique together
// (job id, trial name, try, role). It is legal in every provider's grammar.
func Name(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	enc := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10])
	return NamePrefix + strings.ToLower(enc)
}

// IsName reports whether name could have been made by Name.
func IsName(name string) bool { return namePattern.MatchString(name) }

// Validate finds what no provider could make, before anything is made.
func (s Spec) Validate(can Capabilities) error {
	kind, err := s.Source.Kind()
	switch {
	case err != nil:
		return E(KindInvalid, "create", err)
	case !IsName(s.Name):
		return Errorf(KindInvalid, "create", "name %q is not one that providers.Name makes", s.Name)
	case s.NoHelper:
		return Errorf(KindUnsupported, "create", "a sandbox without harbor-inside cannot run commands")
	case !can.HasSource(kind):
		return Errorf(KindUnsupported, "create", "cannot start a sandbox from %s", kind)
	case !can.HasNetwork(s.Network.ModeOrPublic()):
		return Errorf(KindUnsupported, "create", "network mode %q is not supported here", s.Network.Mode)
	case len(s.Mounts) > 0 && !can.Mounts:
		return Errorf(KindUnsupported, "create", "host directories cannot be mounted here")
	case s.Resources.GPUs > 0:
		return Errorf(KindUnsupported, "create", "GPUs are not supported here")
	case s.Resources.CPUs < 0 || s.Resources.MemoryMiB < 0 || s.Resources.DiskMiB < 0 || s.Resources.PIDs < 0:
		return Errorf(KindInvalid, "create", "a resource limit is negative: %+v", s.Resources)
	}
	return nil
}

// ModeOrPublic returns the mode, public when none is set.
func (n Network) ModeOrPublic() NetworkMode {
	if n.Mode == "" {
		return NetworkPublic
	}
	return n.Mode
}
