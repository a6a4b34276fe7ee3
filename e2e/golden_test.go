package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// ourFiles are what we write beside Harbor's tree.
var ourFiles = []string{"events.jsonl", ".lock"}

// earlierTries are kept by us, and deleted by Harbor.
var earlierTries = regexp.MustCompile(`^[^/]+/tries/`)

// keptOnTimeout are files that Harbor loses when the verifier times out.
var keptOnTimeout = map[string][]string{
	"verifier-timeout": {"verifier/test-stdout.txt", "verifier/reward.txt"},
}

// ownTasks are cases whose task is ours, of the same kind as Harbor's: its
// digests differ.
var ownTasks = []string{"verifier-timeout", "reward-parse-error", "build-error", "cancelled", "resumed"}

// volatile are members whose values differ from run to run. A member listed
// with a parent is volatile only there.
var volatile = regexp.MustCompile(`(^|\.)(source_jobs\[0\]\.path|source_trial\.path|trial_id|id|job_id|trial_name|trial_uri|started_at|updated_at|finished_at|occurred_at|created_at|exception_traceback|job_name|trials_dir|git_commit_hash|is_editable|version)$`)

// trialName is the random part of a trial's name.
var trialName = regexp.MustCompile(`__[2-9A-Za-z]{7}\b`)

// golden compares a job or trial directory with what Harbor wrote for the same
// kind of task: the tree, and every JSON document's keys, order, types and
// values, except values that cannot be the same twice.
func golden(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: golden CASE DIR")
	}
	name, dir := args[0], ts.MkAbs(args[1])
	want := recorded(name)
	if diff := compareTrees(name, want, dir); diff != "" {
		ts.Fatalf("tree differs from Harbor's:\n%s", diff)
	}
	docs, err := filepath.Glob(filepath.Join(want, "*.json"))
	ts.Check(err)
	more, err := filepath.Glob(filepath.Join(want, "*", "*.json"))
	ts.Check(err)
	manifests, err := filepath.Glob(filepath.Join(want, "*", "artifacts", "manifest.json"))
	ts.Check(err)
	for _, doc := range slices.Concat(docs, more, manifests) {
		rel, err := filepath.Rel(want, doc)
		ts.Check(err)
		for _, ours := range counterparts(dir, filepath.ToSlash(rel)) {
			if diff := compareDocs(doc, ours, slices.Contains(ownTasks, name)); diff != "" {
				ts.Fatalf("%s differs from Harbor's %s:\n%s", ours, rel, diff)
			}
		}
	}
}

// recorded is the directory of a case: of Harbor, or of ours where we differ on
// purpose (docs/compatibility.md says why).
func recorded(name string) string {
	if own := mustAbs(filepath.Join("testdata/own", name)); isDir(own) {
		return own
	}
	return filepath.Join(mustAbs("testdata/harbor-0.26"), name)
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// counterparts are our files of the same name, whatever the trial is called.
func counterparts(dir, rel string) []string {
	pattern := trialName.ReplaceAllString(rel, "__*")
	found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
	return found
}

func compareTrees(name, want, dir string) string {
	b, err := os.ReadFile(filepath.Join(want, "tree.txt"))
	if err != nil {
		return err.Error()
	}
	var theirs, ours []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(strings.TrimSpace(line), " empty")
		theirs = append(theirs, trialName.ReplaceAllString(line, "__XXXXXXX"))
	}
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = trialName.ReplaceAllString(filepath.ToSlash(rel), "__XXXXXXX")
		if d.IsDir() {
			rel += "/"
		}
		if !ourFile(name, rel) {
			ours = append(ours, rel)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	theirs, ours = uniq(theirs), uniq(ours)
	return listDiff(theirs, ours)
}

func ourFile(name, rel string) bool {
	if slices.Contains(ourFiles, path.Base(rel)) || earlierTries.MatchString(rel) {
		return true
	}
	return slices.ContainsFunc(keptOnTimeout[name], func(s string) bool { return strings.HasSuffix(rel, s) })
}

func uniq(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

func listDiff(theirs, ours []string) string {
	var b strings.Builder
	for _, x := range theirs {
		if !slices.Contains(ours, x) {
			fmt.Fprintf(&b, "- %s\n", x)
		}
	}
	for _, x := range ours {
		if !slices.Contains(theirs, x) {
			fmt.Fprintf(&b, "+ %s\n", x)
		}
	}
	return b.String()
}

// object is a JSON object with its order.
type object struct {
	keys   []string
	values map[string]any
}

func compareDocs(want, got string, ownTask bool) string {
	a, err := readDoc(want)
	if err != nil {
		return err.Error()
	}
	b, err := readDoc(got)
	if err != nil {
		return err.Error()
	}
	var diffs []string
	compare("", a, b, &diffs)
	if ownTask {
		diffs = slices.DeleteFunc(diffs, func(d string) bool { return digestOf.MatchString(d) })
	}
	return strings.Join(diffs, "\n")
}

var digestOf = regexp.MustCompile(`^(\S*\.)?(task_checksum|digest): `)

func readDoc(name string) (any, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return decodeOrdered(dec)
}

func decodeOrdered(dec *json.Decoder) (any, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		o := object{values: map[string]any{}}
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeOrdered(dec)
			if err != nil {
				return nil, err
			}
			o.keys = append(o.keys, k.(string))
			o.values[k.(string)] = v
		}
		_, err = dec.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := decodeOrdered(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	return tok, nil
}

// unordered are maps whose order means nothing.
var unordered = regexp.MustCompile(`(^|\.)(evals|reward_stats|exception_stats|pass_at_k|metrics\[\d+\])(\.|$)`)

func compare(at string, want, got any, diffs *[]string) {
	report := func(format string, args ...any) {
		*diffs = append(*diffs, fmt.Sprintf("%s: ", at)+fmt.Sprintf(format, args...))
	}
	if s, ok := want.(string); ok && strings.HasPrefix(s, "<elided") {
		return
	}
	switch w := want.(type) {
	case object:
		g, ok := got.(object)
		if !ok {
			report("want an object, got %v", got)
			return
		}
		compareObjects(at, w, g, diffs)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			report("want %d elements, got %v", len(w), got)
			return
		}
		for i := range w {
			compare(fmt.Sprintf("%s[%d]", at, i), w[i], g[i], diffs)
		}
	default:
		compareScalars(at, want, got, report)
	}
}

func compareObjects(at string, w, g object, diffs *[]string) {
	theirs, ours := shared(w.keys), shared(g.keys)
	if unordered.MatchString(at) {
		theirs, ours = slices.Sorted(slices.Values(theirs)), slices.Sorted(slices.Values(ours))
	}
	theirs = slices.DeleteFunc(slices.Clone(theirs), func(k string) bool { return volatile.MatchString(k) && !slices.Contains(ours, k) })
	if !slices.Equal(theirs, ours) {
		*diffs = append(*diffs, fmt.Sprintf("%s: keys %v, want %v", at, ours, theirs))
		return
	}
	for _, k := range theirs {
		compare(strings.TrimPrefix(at+"."+k, "."), w.values[k], g.values[k], diffs)
	}
}

// shared leaves out the key that is ours alone.
func shared(keys []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "harborgate" })
}

func compareScalars(at string, want, got any, report func(string, ...any)) {
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		report("want %v (%T), got %v (%T)", want, want, got, got)
		return
	}
	if volatile.MatchString(at) {
		return
	}
	w, g := fmt.Sprint(want), fmt.Sprint(got)
	if strings.HasSuffix(at, "exception_message") {
		// Ours says more behind Harbor's words; the words of docker are its own.
		w, g = trialName.ReplaceAllString(w, ""), trialName.ReplaceAllString(g, "")
		if !strings.HasPrefix(g, w) && !strings.HasPrefix(w, "Docker compose command failed") {
			report("want %q…, got %q", w, g)
		}
		return
	}
	if trialName.ReplaceAllString(w, "__X") != trialName.ReplaceAllString(g, "__X") {
		report("want %s, got %s", w, g)
	}
}
