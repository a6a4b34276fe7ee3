package lint

import (
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// eachService calls f for every service that could be read.
func (s *subject) eachService(f func(compose, service)) {
	for _, c := range s.composes {
		for _, x := range c.services {
			f(c, x)
		}
	}
}

// in adds a finding about a node of a compose file.
func (s *subject) in(c compose, n *yaml.Node, format string, args ...any) {
	s.found(c.path, n.Line, n.Column, format, args...)
}

func composePrivileged(s *subject) {
	s.eachService(func(c compose, x service) {
		if n := member(x.node, "privileged"); n != nil && strings.EqualFold(n.Value, "true") {
			s.in(c, n, "service %s is privileged: it owns the host", x.name)
		}
	})
}

func composeCapabilities(s *subject) {
	s.eachService(func(c compose, x service) {
		if n := member(x.node, "cap_add"); n != nil && len(n.Content) > 0 {
			s.in(c, n, "service %s asks for more kernel capabilities: remove cap_add", x.name)
		}
	})
}

// mount is a directory or file of the host that a service gets.
type mount struct {
	source   string
	readOnly bool
	node     *yaml.Node
}

// eachMount calls f for every bind mount. Sources that begin with a variable are left
// out: where they are is known only when they are used.
func (s *subject) eachMount(f func(compose, service, mount)) {
	s.eachService(func(c compose, x service) {
		volumes := member(x.node, "volumes")
		if volumes == nil || volumes.Kind != yaml.SequenceNode {
			return
		}
		for _, n := range volumes.Content {
			if m, ok := bindMount(resolved(n)); ok && !strings.HasPrefix(m.source, "$") {
				f(c, x, m)
			}
		}
	})
}

// bindMount reads both forms of a volume; it is false for volumes that have a name.
func bindMount(n *yaml.Node) (mount, bool) {
	if n.Kind == yaml.MappingNode {
		m := mount{node: n}
		if source := member(n, "source"); source != nil {
			m.source = source.Value
		}
		readOnly, kind := member(n, "read_only"), member(n, "type")
		m.readOnly = readOnly != nil && strings.EqualFold(readOnly.Value, "true")
		return m, kind != nil && kind.Value == "bind" && m.source != ""
	}
	source, rest, ok := strings.Cut(n.Value, ":")
	if !ok || source == "" || !strings.ContainsRune("./~$", rune(source[0])) {
		return mount{}, false
	}
	m := mount{source: source, node: n}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		for option := range strings.SplitSeq(rest[i+1:], ",") {
			m.readOnly = m.readOnly || option == "ro"
		}
	}
	return m, true
}

func composeWritable(s *subject) {
	s.eachMount(func(c compose, x service, m mount) {
		if !m.readOnly {
			s.in(c, m.node, "service %s can write to %s of the host: mount it with :ro, or copy it into the image", x.name, m.source)
		}
	})
}

func composeExternal(s *subject) {
	s.eachMount(func(c compose, x service, m mount) {
		if p, ok := c.located(m); !ok || !below(p, s.dir) {
			s.in(c, m.node, "service %s mounts %s, which is not in the task: bring it along, or copy it into the image", x.name, m.source)
		}
	})
}

func composeLinks(s *subject) {
	s.eachMount(func(c compose, x service, m mount) {
		p, ok := c.located(m)
		for ; ok && below(p, s.dir) && p != s.dir; p = filepath.Dir(p) {
			if info, err := os.Lstat(p); err == nil && info.Mode()&os.ModeSymlink != 0 {
				s.in(c, m.node, "service %s mounts %s, which is or goes through a link: mount what it points to", x.name, m.source)
				return
			}
		}
	})
}

// located is where a source is, false when that depends on the user.
func (c compose) located(m mount) (string, bool) {
	switch {
	case strings.HasPrefix(m.source, "~"):
		return "", false
	case filepath.IsAbs(m.source):
		return filepath.Clean(m.source), true
	}
	return filepath.Join(filepath.Dir(c.path), m.source), true
}

func below(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && filepath.IsLocal(rel)
}
