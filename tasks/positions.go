package tasks

import (
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// position is a place in a document, both parts from 1.
type position struct{ line, column int }

// positions finds where every key of a TOML document stands. Keys are named as
// in problems: "environment.cpus", "steps[1].verifier.env.A". It is built only
// once there is something to report, because most documents are good.
func positions(document []byte) map[string]position {
	x := indexer{at: map[string]position{}, arrays: map[string]int{}}
	x.parser.Reset(document)
	var prefix string
	for x.parser.NextExpression() {
		switch e := x.parser.Expression(); e.Kind {
		case unstable.Table:
			prefix = x.header(e, false)
		case unstable.ArrayTable:
			prefix = x.header(e, true)
		case unstable.KeyValue:
			x.keyValue(prefix, e)
		default:
		}
	}
	return x.at
}

type indexer struct {
	parser unstable.Parser
	at     map[string]position
	arrays map[string]int // elements seen so far of each array of tables
}

// header records [a.b] or [[a.b]] and returns the path of what follows. A part
// that is an array of tables stands for its last element.
func (x *indexer) header(e *unstable.Node, array bool) string {
	var p string
	for it := e.Key(); it.Next(); {
		part := it.Node()
		p = join(p, string(part.Data))
		x.record(p, part.Raw)
		last := it.IsLast()
		if last && array {
			x.arrays[p]++
		}
		if n := x.arrays[p]; n > 0 {
			p = element(p, n-1)
			x.record(p, part.Raw)
		}
	}
	return p
}

func (x *indexer) keyValue(prefix string, e *unstable.Node) {
	p := prefix
	for it := e.Key(); it.Next(); {
		p = join(p, string(it.Node().Data))
		x.record(p, it.Node().Raw)
	}
	x.value(p, e.Value())
}

func (x *indexer) value(p string, v *unstable.Node) {
	switch v.Kind {
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				x.keyValue(p, it.Node())
			}
		}
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				continue
			}
			x.record(element(p, i), it.Node().Raw)
			x.value(element(p, i), it.Node())
			i++
		}
	default:
	}
}

// record keeps the first place only: that is where a table is opened.
func (x *indexer) record(p string, raw unstable.Range) {
	if _, ok := x.at[p]; ok || raw.Length == 0 {
		return
	}
	start := x.parser.Shape(raw).Start
	x.at[p] = position{start.Line, start.Column}
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

func element(p string, i int) string { return p + "[" + strconv.Itoa(i) + "]" }

// parent returns the path one level up, "" at the top.
func parent(p string) string {
	if strings.HasSuffix(p, "]") {
		return p[:strings.LastIndexByte(p, '[')]
	}
	i := strings.LastIndexByte(p, '.')
	return p[:max(i, 0)]
}

// Place finds where a key of a TOML document stands, or the nearest table above it:
// "environment.cpus", "steps[1].agent.user". Both numbers are from 1, and 0 when there
// is no such place.
func Place(document []byte, key string) (line, column int) {
	at := positions(document)
	for ; key != ""; key = parent(key) {
		if p, ok := at[key]; ok {
			return p.line, p.column
		}
	}
	return 0, 0
}
