package app

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/tasks"
	"harborgate/trials"
)

// The flags of patterns, as people write them.
const (
	includeFlag = "-i"
	excludeFlag = "-x"
)

// pattern is a glob of task names. It means a task by its directory's name, by the
// name that tables show, or by the part of that after the slash.
type pattern struct{ flag, glob string }

// filters choose tasks, and remember which patterns meant one of any data set: one
// that means none is a slip, and what it should have left out costs money.
type filters struct {
	all   []pattern
	meant map[pattern]bool
	seen  [][]string // names of each task
}

// newFilters refuses patterns that are no globs.
func newFilters(datasets []trials.DatasetConfig) (*filters, error) {
	f := &filters{meant: map[pattern]bool{}}
	for _, d := range datasets {
		for _, p := range patternsOf(d) {
			if _, err := path.Match(p.glob, ""); err != nil {
				return nil, fmt.Errorf("%s %q: %w: write a glob like 'py-*'", p.flag, p.glob, err)
			}
			if !slices.Contains(f.all, p) {
				f.all = append(f.all, p)
			}
		}
	}
	return f, nil
}

func patternsOf(d trials.DatasetConfig) []pattern {
	var out []pattern
	for _, x := range []struct {
		flag  string
		globs *trials.List[string]
	}{{includeFlag, d.TaskNames}, {excludeFlag, d.ExcludeTaskNames}} {
		if x.globs == nil {
			continue
		}
		for _, glob := range *x.globs {
			out = append(out, pattern{x.flag, glob})
		}
	}
	return out
}

// want reports whether the filters of a data set leave a task in.
func (f *filters) want(d trials.DatasetConfig, dir string) bool {
	patterns := patternsOf(d)
	if len(patterns) == 0 {
		return true // and no name needs to be read
	}
	names := tasks.Names(dir)
	f.seen = append(f.seen, names)
	including, hit := false, map[string]bool{}
	for _, p := range patterns {
		including = including || p.flag == includeFlag
		if p.means(names) {
			hit[p.flag], f.meant[p] = true, true
		}
	}
	return (hit[includeFlag] || !including) && !hit[excludeFlag]
}

// means reports whether a pattern, which is well formed, means a task of some names.
func (p pattern) means(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		whole, _ := path.Match(p.glob, name)
		last, _ := path.Match(p.glob, path.Base(name))
		return whole || last
	})
}

// unused warns of patterns that meant no task.
func (f *filters) unused() tasks.Problems {
	var out tasks.Problems
	for _, p := range f.all {
		if f.meant[p] {
			continue
		}
		next := "see the names with --dry-run"
		if near := f.near(p); len(near) > 0 {
			next = "did you mean " + strings.Join(near, ", ") + "?"
		}
		out = append(out, tasks.Problem{
			File: p.flag + " " + p.glob, Severity: tasks.SeverityWarning, Code: "unused-filter",
			Message: "matches no task", Next: next,
		})
	}
	return out
}

// mostNear is how many names are suggested for a filter that matches nothing.
const mostNear = 5

func (f *filters) noMatch(d trials.DatasetConfig, all []tasks.Found) error {
	if len(all) == 0 {
		return fmt.Errorf("%s holds no tasks: a task is a directory with a task.toml", *d.Path)
	}
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = filepath.Base(f.Path)
	}
	hint := fmt.Sprintf("it has %d tasks, for example %s", len(all), strings.Join(names[:min(mostNear, len(names))], ", "))
	var near []string
	for _, p := range patternsOf(d) {
		if p.flag == includeFlag {
			near = append(near, f.near(p)...)
		}
	}
	slices.Sort(near)
	if near = slices.Compact(near); len(near) > 0 {
		hint = "did you mean " + strings.Join(near[:min(mostNear, len(near))], ", ") + "?"
	}
	return fmt.Errorf("no task of %s matches the filters (-i, -x): %s", *d.Path, hint)
}

// near are tasks that a pattern may have meant: a name with a slip, or one that holds
// what was given. Each task is in it once.
func (f *filters) near(p pattern) []string {
	plain := strings.ToLower(strings.Trim(p.glob, "*?"))
	var out []string
	for _, names := range f.seen {
		i := slices.IndexFunc(names, func(name string) bool {
			slip := tasks.Closest(p.glob, []string{name, path.Base(name)}) != ""
			return slip || plain != "" && strings.Contains(strings.ToLower(name), plain)
		})
		if i >= 0 {
			out = append(out, names[i])
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(mostNear, len(out))]
}
