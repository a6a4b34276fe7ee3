package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"harborgate/tasks"
)

// maxNodes bounds what aliases may expand to.
const maxNodes = 200_000

// place is where something stands in a file, both numbers from 1.
type place struct {
	file         string
	line, column int
}

// document is one parsed file: plain values of JSON's kinds, numbers with their
// spelling (json.Number), and the place of every key and element by its path.
type document struct {
	file     string
	root     any
	at       map[string]place
	problems tasks.Problems
	nodes    int
}

// parseYAML reads one YAML 1.2 document, with aliases and merge keys followed.
func parseYAML(file string, content []byte) *document {
	d := &document{file: file, at: map[string]place{}}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(content))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.root = map[string]any{}
		return d
	case err != nil:
		d.syntax(yamlLine(err), 0, strings.TrimPrefix(err.Error(), "yaml: "))
		return d
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		d.syntax(0, 0, "the file holds more than one document")
		return d
	}
	d.root = d.plain(doc.Content[0], "", nil)
	return d
}

// yamlLine finds the line that the library only has in its text.
func yamlLine(err error) int {
	_, rest, ok := strings.Cut(err.Error(), "line ")
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ":")
	n, _ := strconv.Atoi(digits)
	return n
}

func (d *document) syntax(line, column int, message string) {
	d.problems = append(d.problems, tasks.Problem{
		File: d.file, Line: line, Column: max(column, min(line, 1)), Severity: tasks.SeverityError,
		Code: "syntax", Message: message, Next: "correct the syntax",
	})
}

// fail reports a problem at a path that was recorded.
func (d *document) fail(severity tasks.Severity, path, code, next, format string, args ...any) {
	p := find(d.at, path)
	d.problems = append(d.problems, tasks.Problem{
		File: d.file, Line: p.line, Column: p.column, Severity: severity, Code: code,
		Message: fmt.Sprintf(format, args...), Next: next,
	})
}

// find returns the place of a path, or of the nearest path above it.
func find(at map[string]place, path string) place {
	for {
		if p, ok := at[path]; ok || path == "" {
			return p
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// plain turns a node into plain values. above holds the aliases being followed,
// which must not contain themselves.
func (d *document) plain(n *yaml.Node, path string, above []*yaml.Node) any {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.syntax(n.Line, n.Column, "the document is too large, or its aliases expand too far")
		}
		return nil
	}
	if _, ok := d.at[path]; !ok {
		d.at[path] = place{d.file, n.Line, n.Column}
	}
	switch n.Kind {
	case yaml.AliasNode:
		for _, a := range above {
			if a == n.Alias {
				d.syntax(n.Line, n.Column, "alias *"+n.Value+" contains itself")
				return nil
			}
		}
		return d.plain(n.Alias, path, append(above, n.Alias))
	case yaml.MappingNode:
		return d.mapping(n, path, above)
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			out[i] = d.plain(c, element(path, i), above)
		}
		return out
	default:
		return scalar(n)
	}
}

func (d *document) mapping(n *yaml.Node, path string, above []*yaml.Node) map[string]any {
	out := make(map[string]any, len(n.Content)/2)
	own := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.ShortTag() == "!!merge" {
			d.merge(out, own, v, path, above)
			continue
		}
		if k.Kind != yaml.ScalarNode {
			d.syntax(k.Line, k.Column, "a key must be a string")
			continue
		}
		p := join(path, k.Value)
		if own[k.Value] {
			d.syntax(k.Line, k.Column, "key "+p+" is given twice")
			continue
		}
		own[k.Value] = true
		d.at[p] = place{d.file, k.Line, k.Column}
		out[k.Value] = d.plain(v, p, above)
	}
	return out
}

// merge takes over the keys of "<<" that the mapping does not have itself.
func (d *document) merge(out map[string]any, own map[string]bool, v *yaml.Node, path string, above []*yaml.Node) {
	sources := []any{d.plain(v, path, above)}
	if list, ok := sources[0].([]any); ok {
		sources = list
	}
	for _, s := range sources {
		m, ok := s.(map[string]any)
		if !ok {
			d.syntax(v.Line, v.Column, "<< needs a mapping")
			return
		}
		for key, value := range m {
			if _, taken := out[key]; !taken && !own[key] {
				out[key] = value
			}
		}
	}
}

// scalar keeps numbers as they are spelt where JSON can hold them.
func scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value)
		}
		var v any
		if n.Decode(&v) == nil {
			return v // hexadecimal, underscores, .inf: seen by the schema
		}
	}
	return n.Value
}

// parseJSON reads one JSON document.
func parseJSON(file string, content []byte) *document {
	d := &document{file: file, at: map[string]place{}}
	r := &jsonReader{d: d, dec: json.NewDecoder(bytes.NewReader(content)), content: content}
	r.dec.UseNumber()
	root, err := r.value("")
	if err == nil {
		if _, more := r.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is text after the document")
		}
	}
	if err != nil {
		offset := r.dec.InputOffset()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			offset = syntax.Offset
		}
		p := r.place(offset)
		d.syntax(p.line, p.column, "not valid JSON: "+err.Error())
		return d
	}
	d.root = root
	return d
}

type jsonReader struct {
	d       *document
	dec     *json.Decoder
	content []byte
	line    int   // of counted
	start   int64 // of that line
	counted int64
}

// place counts lines from where it stopped the last time.
func (r *jsonReader) place(offset int64) place {
	offset = min(offset, int64(len(r.content)))
	if offset < r.counted {
		r.line, r.start, r.counted = 0, 0, 0
	}
	for ; r.counted < offset; r.counted++ {
		if r.content[r.counted] == '\n' {
			r.line++
			r.start = r.counted + 1
		}
	}
	return place{r.d.file, r.line + 1, int(offset-r.start) + 1}
}

// next skips to the first byte of the next token.
func (r *jsonReader) next() int64 {
	at := r.dec.InputOffset()
	for at < int64(len(r.content)) && strings.IndexByte(" \t\r\n,:", r.content[at]) >= 0 {
		at++
	}
	return at
}

func (r *jsonReader) value(path string) (any, error) {
	if _, ok := r.d.at[path]; !ok {
		r.d.at[path] = r.place(r.next())
	}
	token, err := r.dec.Token()
	if err != nil {
		return nil, unexpectedEnd(err)
	}
	switch token {
	case json.Delim('{'):
		return r.object(path)
	case json.Delim('['):
		out := []any{}
		for r.dec.More() {
			v, err := r.value(element(path, len(out)))
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err := r.dec.Token()
		return out, unexpectedEnd(err)
	default:
		return token, nil
	}
}

func (r *jsonReader) object(path string) (any, error) {
	out := map[string]any{}
	for r.dec.More() {
		at := r.place(r.next())
		token, err := r.dec.Token()
		if err != nil {
			return nil, unexpectedEnd(err)
		}
		key, _ := token.(string)
		p := join(path, key)
		if _, ok := out[key]; ok {
			r.d.syntax(at.line, at.column, "key "+p+" is given twice")
		}
		r.d.at[p] = at
		if out[key], err = r.value(p); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.Token()
	return out, unexpectedEnd(err)
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the document ends too early")
	}
	return err
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
