package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"harborgate/tasks"
)

// HostVersion is the version of config.yaml.
const HostVersion = 1

// Host is config.yaml: what this host has, for all jobs.
type Host struct {
	Version   int                 `json:"version"`
	Providers map[string]Provider `json:"providers"`
	// Pools are several providers under one name, for -e.
	Pools map[string][]Choice `json:"pools"`
	// Snapshots bounds what each provider keeps of images that were built for tasks.
	Snapshots Snapshots `json:"snapshots"`
	// JobsDirs are further places to look for jobs in, absolute.
	JobsDirs []string `json:"jobs_dirs"`

	// Blocks that belong to other packages, which decode them.
	Upstreams map[string]Block `json:"upstreams"`
	Budgets   Block            `json:"budgets"`
	Auth      Block            `json:"auth"`
	Gateway   Block            `json:"gateway"`
}

// Provider is one configured place for sandboxes.
type Provider struct {
	Type    string `json:"type"` // the driver's name; that of the provider when empty
	Limits  Limits `json:"limits"`
	Options Block  `json:"options"` // the driver's own
}

// Snapshots are the bounds of what is kept. Zero is no bound.
type Snapshots struct {
	KeepMiB     int64   `json:"keep_mb"`      // of all together, each with all of its layers
	UnusedHours float64 `json:"unused_hours"` // since the last use
}

func (s Snapshots) validate(d *document) {
	if s.KeepMiB < 0 || s.UnusedHours < 0 {
		d.fail(tasks.SeverityError, "snapshots", "bad-value", "write numbers above zero, or leave them out", "a bound is below zero")
	}
}

// Limits bound what is asked of a provider at once and per second. Zero is no
// limit.
type Limits struct {
	Sandboxes int     `json:"sandboxes"`
	Builds    int     `json:"builds"`
	CPUs      float64 `json:"cpus"`
	// OvercommitCPUs is how many times the cores may be promised; 1 when zero.
	OvercommitCPUs float64 `json:"overcommit_cpus"`
	MemoryMiB      int64   `json:"memory_mb"`
	DiskMiB        int64   `json:"disk_mb"`
	GPUs           int     `json:"gpus"`
	CreatesPerSec  float64 `json:"creates_per_sec"`
	CreateBurst    int     `json:"create_burst"`
	// Calls by class: removals; lists and checks; what happens inside sandboxes.
	DeletesPerSec float64 `json:"deletes_per_sec"`
	ReadsPerSec   float64 `json:"reads_per_sec"`
	ExecsPerSec   float64 `json:"execs_per_sec"`
	CallsPerSec   float64 `json:"calls_per_sec"` // all but the last together
	// OutageSec is how long a job waits for the provider when it went away, before
	// it stops; 300 when zero.
	OutageSec float64 `json:"outage_sec"`
}

// Room reports whether there is a limit of what is there at once.
func (l Limits) Room() bool {
	return l.Sandboxes > 0 || l.CPUs > 0 || l.MemoryMiB > 0 || l.DiskMiB > 0 || l.GPUs > 0
}

// HostPath says where config.yaml is: $HARBOR_CONFIG, else
// $XDG_CONFIG_HOME/harborgate/config.yaml, else below ~/.config. chosen says that
// the user named the file, so that it must exist.
func HostPath(lookup func(string) (string, bool)) (path string, chosen bool) {
	if p, ok := lookup("HARBOR_CONFIG"); ok && p != "" {
		return p, true
	}
	dir, ok := lookup("XDG_CONFIG_HOME")
	if !ok || !filepath.IsAbs(dir) {
		home, _ := lookup("HOME")
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "harborgate", "config.yaml"), false
}

// Types are what a provider may be. The zero Types leave that to whoever opens it.
type Types struct {
	Built []string // there are drivers for these
	Known []string // these are refused by name when they are used
}

func (t Types) has(name string) bool {
	return len(t.Built) == 0 || slices.Contains(t.Built, name) || slices.Contains(t.Known, name)
}

// LoadHost reads config.yaml. lookup reads the environment. Without a file the
// defaults hold. The Host must not be used when the problems hold an error.
func LoadHost(lookup func(string) (string, bool), types Types) (Host, tasks.Problems) {
	path, chosen := HostPath(lookup)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !chosen {
		return Host{Version: HostVersion}, nil
	}
	d := &document{file: path, at: map[string]place{}}
	if err != nil {
		d.fail(tasks.SeverityError, "", "unreadable-file", "correct HARBOR_CONFIG, or make the file readable", "cannot read it: %v", unwrapPath(err))
		return Host{}, d.problems
	}
	home, _ := lookup("HOME")
	return parseHost(path, content, home, types)
}

func parseHost(path string, content []byte, home string, types Types) (Host, tasks.Problems) {
	d := parseYAML(path, content)
	if d.problems.Err() != nil {
		return Host{}, d.problems
	}
	d.literalSecrets(d.root, "", false)
	checked, ok := d.check(d.root, reflect.TypeFor[Host](), "")
	if !ok || d.problems.Err() != nil {
		return Host{}, d.problems
	}
	h := Host{Version: HostVersion}
	if err := remarshal(checked, &h); err != nil {
		d.fail(tasks.SeverityError, "", "bad-value", "", "%v", err)
		return Host{}, d.problems
	}
	h.place(d)
	h.validate(d, home, types)
	return h, d.problems
}

func remarshal(v, into any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// place tells the raw blocks where they stand.
func (h *Host) place(d *document) {
	set := func(b Block, path string) Block {
		b.path, b.file, b.at = path, d.file, d.at
		return b
	}
	for name, p := range h.Providers {
		p.Options = set(p.Options, join(join("providers", name), "options"))
		if p.Type == "" {
			p.Type = name
		}
		h.Providers[name] = p
	}
	for name, b := range h.Upstreams {
		h.Upstreams[name] = set(b, join("upstreams", name))
	}
	h.Budgets = set(h.Budgets, "budgets")
	h.Auth = set(h.Auth, "auth")
	h.Gateway = set(h.Gateway, "gateway")
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func (h *Host) validate(d *document, home string, types Types) {
	if h.Version != HostVersion {
		d.fail(tasks.SeverityError, "version", "unknown-version", "update harbor, or write version: 1",
			"version %d is not known", h.Version)
	}
	for _, name := range sortedKeys(h.Providers) {
		path := join("providers", name)
		if !providerName.MatchString(name) {
			d.fail(tasks.SeverityError, path, "bad-name", "use lower-case letters, digits and dashes",
				"%q cannot be the name of a provider", name)
		}
		switch typ := h.Providers[name].Type; {
		case types.has(typ):
		case typ == name:
			d.fail(tasks.SeverityError, path, "missing-key", meant(typ, types.Built, "write type: with one of "), "provider %q has no type, and its name is none", name)
		default:
			d.fail(tasks.SeverityError, join(path, "type"), "unknown-type", meant(typ, types.Built, "write one of "), "%q is no type of provider", typ)
		}
		h.Providers[name].Limits.validate(d, join(path, "limits"))
	}
	h.validatePools(d, types)
	h.Snapshots.validate(d)
	for i, dir := range h.JobsDirs {
		if rest, ok := strings.CutPrefix(dir, "~/"); ok && home != "" {
			dir = filepath.Join(home, rest)
			h.JobsDirs[i] = dir
		}
		if !filepath.IsAbs(dir) {
			d.fail(tasks.SeverityError, element("jobs_dirs", i), "relative-path", "write an absolute path, or one below ~/",
				"%q is not an absolute path", dir)
		}
	}
}

// meant is what to do about a name that is none of those that there are.
func meant(name string, names []string, otherwise string) string {
	if near := tasks.Closest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return otherwise + strings.Join(names, ", ")
}

func (l Limits) validate(d *document, path string) {
	for _, f := range []struct {
		key   string
		value float64
	}{
		{"sandboxes", float64(l.Sandboxes)},
		{"builds", float64(l.Builds)},
		{"cpus", l.CPUs},
		{"overcommit_cpus", l.OvercommitCPUs},
		{"memory_mb", float64(l.MemoryMiB)},
		{"disk_mb", float64(l.DiskMiB)},
		{"gpus", float64(l.GPUs)},
		{"creates_per_sec", l.CreatesPerSec},
		{"create_burst", float64(l.CreateBurst)},
		{"deletes_per_sec", l.DeletesPerSec},
		{"reads_per_sec", l.ReadsPerSec},
		{"execs_per_sec", l.ExecsPerSec},
		{"calls_per_sec", l.CallsPerSec},
		{"outage_sec", l.OutageSec},
	} {
		if f.value < 0 {
			d.fail(tasks.SeverityError, join(path, f.key), "bad-value", "write 0 for no limit",
				"%s is %v, less than 0", join(path, f.key), f.value)
		}
	}
	if l.CreateBurst > 0 && l.CreatesPerSec == 0 {
		d.fail(tasks.SeverityError, join(path, "create_burst"), "bad-value", "write creates_per_sec beside it, or leave it out",
			"%s limits nothing without creates_per_sec", join(path, "create_burst"))
	}
}

// Block is a part of config.yaml that somebody else understands. The zero Block
// is an empty one.
type Block struct {
	raw  json.RawMessage
	file string
	path string
	at   map[string]place
}

// UnmarshalJSON keeps the block as it is.
func (b *Block) UnmarshalJSON(raw []byte) error {
	b.raw = append(b.raw[:0], raw...)
	return nil
}

// IsZero reports whether the block says nothing.
func (b Block) IsZero() bool { return len(b.raw) == 0 || string(b.raw) == "null" }

// JSON is the block as JSON, for whoever has a reader of its own.
func (b Block) JSON() []byte { return b.raw }

// File is the file that the block stands in.
func (b Block) File() string { return b.file }

// Path is the key of the block, with those around it.
func (b Block) Path() string { return b.path }

// Where says where the block stands, for errors.
func (b Block) Where() string { return fmt.Sprintf("%s: %s", b.file, b.path) }

// At says where a key of the block stands, with its line, for errors.
func (b Block) At(key string) string {
	path := join(b.path, key)
	at := b.at[path]
	return fmt.Sprintf("%s:%d:%d: %s", b.file, at.line, at.column, path)
}

// Decode reads the block into a struct whose keys are its json tags, over the
// defaults that it holds. Unknown keys and wrong types are errors; the error
// names all of them with their places.
func (b Block) Decode(into any) error {
	if b.IsZero() {
		return nil
	}
	var v any
	if err := remarshalNumbers(b.raw, &v); err != nil {
		return fmt.Errorf("%s: %s: %w", b.file, b.path, err)
	}
	d := &document{file: b.file, at: b.at}
	checked, ok := d.check(v, reflect.TypeOf(into).Elem(), b.path)
	if err := d.problems.Err(); err != nil || !ok {
		return err
	}
	if err := remarshal(checked, into); err != nil {
		return fmt.Errorf("%s: %s: %w", b.file, b.path, err)
	}
	return nil
}

func remarshalNumbers(raw []byte, into any) error {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	return dec.Decode(into)
}
