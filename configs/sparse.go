package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Sparse is a configuration that says only what it must: what differs from the
// defaults, and what was asked for. It is read like any other.
type Sparse struct{ root *yaml.Node }

// NewSparse leaves out of a configuration what holds without being said. defaults is
// the configuration that nothing was added to. given and blank are two more of the same
// kind, equal but for what was asked for by name: that stays, also when it is the
// default. drop are keys that never stay.
func NewSparse(full, defaults, given, blank any, drop ...string) (Sparse, error) {
	var nodes [4]*yaml.Node
	for i, v := range []any{full, defaults, given, blank} {
		b, err := json.Marshal(v)
		if err != nil {
			return Sparse{}, fmt.Errorf("configuration: %w", err)
		}
		var doc yaml.Node // JSON is YAML, in the order of the keys
		if err := yaml.Unmarshal(b, &doc); err != nil {
			return Sparse{}, fmt.Errorf("configuration: %w", err)
		}
		nodes[i] = doc.Content[0]
	}
	root := pruned(nodes[0], nodes[1], nodes[2], nodes[3])
	for _, key := range drop {
		remove(root, key)
	}
	keepFirst(root, "schema_version", nodes[0])
	return Sparse{root}, nil
}

// YAML prints the configuration.
func (s Sparse) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(s.root)
	return b.Bytes(), err
}

// JSON prints the configuration.
func (s Sparse) JSON() ([]byte, error) {
	var b, out bytes.Buffer
	if err := writeJSON(&b, s.root); err != nil {
		return nil, err
	}
	err := json.Indent(&out, b.Bytes(), "", "  ")
	out.WriteByte('\n')
	return out.Bytes(), err
}

// pruned keeps the keys of a mapping that differ, in block style.
func pruned(full, defaults, given, blank *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i+1 < len(full.Content); i += 2 {
		key, value := full.Content[i], full.Content[i+1]
		d, g, b := child(defaults, key.Value), child(given, key.Value), child(blank, key.Value)
		switch {
		case same(value, d) && same(g, b):
			continue
		case value.Kind == yaml.MappingNode && d != nil && d.Kind == yaml.MappingNode:
			value = pruned(value, d, g, b)
		case value.Kind == yaml.SequenceNode:
			value = withoutEmpty(value)
		}
		out.Content = append(out.Content, plainStyle(key), plainStyle(value))
	}
	return out
}

// withoutEmpty drops what the elements of a list do not say.
func withoutEmpty(list *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode, Tag: list.Tag}
	for _, n := range list.Content {
		if n.Kind == yaml.MappingNode {
			kept := &yaml.Node{Kind: yaml.MappingNode, Tag: n.Tag}
			for i := 0; i+1 < len(n.Content); i += 2 {
				if !empty(n.Content[i+1]) {
					kept.Content = append(kept.Content, n.Content[i], n.Content[i+1])
				}
			}
			n = kept
		}
		out.Content = append(out.Content, n)
	}
	return out
}

func empty(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return len(n.Content) == 0
	}
	return n.Tag == "!!null" || n.Value == "" || n.Tag == "!!bool" && n.Value == "false"
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func same(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	var x, y any
	return a.Decode(&x) == nil && b.Decode(&y) == nil && reflect.DeepEqual(x, y)
}

// oldWords are truth values to readers of YAML 1.1, which Harbor's is.
var oldWords = regexp.MustCompile(`(?i)^(y|n|yes|no|on|off|true|false|null|~|[-+.]?[0-9].*)$`)

// plainStyle lets the writer choose quotes and line breaks, but for text that another
// reader would take for something else.
func plainStyle(n *yaml.Node) *yaml.Node {
	n.Style = 0
	if n.Tag == "!!str" && oldWords.MatchString(n.Value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	n.Line, n.Column = 0, 0
	for _, c := range n.Content {
		plainStyle(c)
	}
	return n
}

func remove(root *yaml.Node, key string) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			root.Content = append(root.Content[:i:i], root.Content[i+2:]...)
			return
		}
	}
}

// keepFirst puts a key that holds anyway before all others.
func keepFirst(root *yaml.Node, key string, from *yaml.Node) {
	value := child(from, key)
	if value == nil || child(root, key) != nil {
		return
	}
	name := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
	root.Content = append([]*yaml.Node{name, plainStyle(value)}, root.Content...)
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		return writeJSONList(b, n)
	}
	var v any = n.Value
	if n.Tag == "!!int" || n.Tag == "!!float" {
		v = json.Number(n.Value) // as it is spelt
	} else if err := n.Decode(&v); err != nil {
		return err
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func writeJSONList(b *bytes.Buffer, n *yaml.Node) error {
	ends := "[]"
	if n.Kind == yaml.MappingNode {
		ends = "{}"
	}
	b.WriteByte(ends[0])
	for i, c := range n.Content {
		switch {
		case i > 0 && (n.Kind == yaml.SequenceNode || i%2 == 0):
			b.WriteByte(',')
		case i > 0:
			b.WriteByte(':')
		}
		if err := writeJSON(b, c); err != nil {
			return err
		}
	}
	b.WriteByte(ends[1])
	return nil
}

// Format of a configuration file by its name: "yaml", "json", or "" for neither.
func Format(name string) string {
	switch {
	case strings.HasSuffix(name, ".json"):
		return "json"
	case strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
		return "yaml"
	}
	return ""
}
