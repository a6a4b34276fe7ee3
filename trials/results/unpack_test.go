package results

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/internal/insideproto"
	"harborgate/trials"
)

func newTrial(t testing.TB, limits Limits) *Trial {
	t.Helper()
	tr, err := NewTrial(filepath.Join(t.TempDir(), "job", "trial"), 1, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// entry is one header and its content.
type entry struct {
	name, link, body string
	typ              byte
	mode             int64
	pax              map[string]string
}

func archiveOf(t testing.TB, entries ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.typ == 0 {
			e.typ = tar.TypeReg
		}
		if e.mode == 0 {
			e.mode = 0o644
		}
		hdr := &tar.Header{Typeflag: e.typ, Name: e.name, Linkname: e.link, Size: int64(len(e.body)), Mode: e.mode, PAXRecords: e.pax}
		if err := w.WriteHeader(hdr); err != nil {
			t.Fatalf("%q: %v", e.name, err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// stored lists what is below a trial's directory: files with their content,
// directories with a slash.
func stored(t testing.TB, tr *Trial, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := tr.Path(dir)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(root, p)
		switch {
		case err != nil || rerr != nil || rel == ".":
			return errors.Join(err, rerr)
		case d.IsDir():
			out[rel+"/"] = ""
		case !d.Type().IsRegular():
			out[rel] = "(" + d.Type().String() + ")"
		default:
			b, err := os.ReadFile(p)
			out[rel] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func reasons(got trials.Unpacked) map[string]string {
	out := map[string]string{}
	for _, s := range got.LeftOut() {
		out[s.Name] = s.Reason
	}
	return out
}

// Each archive is good or hostile; what is stored and what is said about the
// rest is all that may happen.
func TestB079Archives(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 255)
	type files = map[string]string
	for name, c := range map[string]struct {
		entries []entry
		stored  files
		skipped files // part of the reason by name
	}{
		"plain":              {[]entry{{name: "a", body: "1"}, {name: "d/b", body: "2"}}, files{"a": "1", "d/": "", "d/b": "2"}, nil},
		"dot slash":          {[]entry{{name: "./", typ: tar.TypeDir}, {name: "./a", body: "1"}, {name: "./d/../b", body: "2"}}, files{"a": "1", "b": "2"}, nil},
		"no directories":     {[]entry{{name: "x/y/z", body: "1"}}, files{"x/": "", "x/y/": "", "x/y/z": "1"}, nil},
		"empty directory":    {[]entry{{name: "d/", typ: tar.TypeDir, mode: 0o755}}, files{"d/": ""}, nil},
		"closed directory":   {[]entry{{name: "d/", typ: tar.TypeDir, mode: 0o100}, {name: "d/a", body: "1", mode: 0o200}}, files{"d/": "", "d/a": "1"}, nil},
		"hard link":          {[]entry{{name: "a", body: "1"}, {name: "d/b", typ: tar.TypeLink, link: "a"}}, files{"a": "1", "d/": "", "d/b": "1"}, nil},
		"hard link ./":       {[]entry{{name: "./a", body: "1"}, {name: "./b", typ: tar.TypeLink, link: "./a"}}, files{"a": "1", "b": "1"}, nil},
		"hard link to self":  {[]entry{{name: "a", body: "1"}, {name: "a", typ: tar.TypeLink, link: "a"}}, files{"a": "1"}, nil},
		"hard link outside":  {[]entry{{name: "a", typ: tar.TypeLink, link: "../../config.json"}, {name: "b", typ: tar.TypeLink, link: "/etc/passwd"}}, files{}, files{"a": "outside", "b": "outside"}},
		"hard link upwards":  {[]entry{{name: "a", typ: tar.TypeLink, link: "../trial.log"}}, files{}, files{"a": "outside"}},
		"hard link to link":  {[]entry{{name: "l", typ: tar.TypeSymlink, link: "/etc/passwd"}, {name: "a", typ: tar.TypeLink, link: "l"}}, files{}, files{"l": "symbolic link", "a": "not stored"}},
		"hard link to dir":   {[]entry{{name: "d/", typ: tar.TypeDir}, {name: "a", typ: tar.TypeLink, link: "d"}}, files{"d/": ""}, files{"a": "not stored"}},
		"hard link too soon": {[]entry{{name: "a", typ: tar.TypeLink, link: "b"}, {name: "b", body: "1"}}, files{"b": "1"}, files{"a": "not stored"}},
		"absolute":           {[]entry{{name: "/etc/passwd", body: "x"}}, files{}, files{"/etc/passwd": "outside"}},
		"upwards":            {[]entry{{name: "../x", body: "x"}, {name: "d/../../x", body: "x"}, {name: "..", typ: tar.TypeDir}}, files{}, files{"../x": "outside", "..": "outside"}},
		"through a link":     {[]entry{{name: "l", typ: tar.TypeSymlink, link: "/tmp"}, {name: "l/x", body: "1"}}, files{"l/": "", "l/x": "1"}, files{"l": "symbolic link"}},
		"through dot dot":    {[]entry{{name: "l", typ: tar.TypeSymlink, link: ".."}, {name: "l/result.json", body: "x"}}, files{"l/": "", "l/result.json": "x"}, files{"l": "symbolic link"}},
		"specials": {[]entry{{name: "c", typ: tar.TypeChar}, {name: "b", typ: tar.TypeBlock}, {name: "p", typ: tar.TypeFifo}}, files{},
			files{"c": "device", "b": "device", "p": "pipe"}},
		"unknown type":    {[]entry{{name: "v", typ: 'V'}, {name: "a", body: "1"}}, files{"a": "1"}, files{"v": "unknown type"}},
		"twice":           {[]entry{{name: "a", body: "first, longer"}, {name: "a", body: "second"}}, files{"a": "second"}, nil},
		"file, then dir":  {[]entry{{name: "a", body: "1"}, {name: "a/", typ: tar.TypeDir}, {name: "a/b", body: "2"}}, files{"a": "1"}, files{"a": "file exists", "a/b": ""}},
		"dir, then file":  {[]entry{{name: "a/b", body: "1"}, {name: "a", body: "2"}}, files{"a/": "", "a/b": "1"}, files{"a": "not empty"}},
		"empty dir, file": {[]entry{{name: "a/", typ: tar.TypeDir}, {name: "a", body: "2"}}, files{"a": "2"}, nil},
		"odd names":       {[]entry{{name: "a b'\"c", body: "1"}, {name: "-rf", body: "2"}, {name: "new\nline", body: "3"}, {name: "back\\slash", body: "4"}}, files{"a b'\"c": "1", "-rf": "2", "new\nline": "3", "back\\slash": "4"}, nil},
		"not UTF-8":       {[]entry{{name: "caf\xe9", body: "1"}}, files{"caf\xe9": "1"}, nil},
		"255 bytes":       {[]entry{{name: long, body: "1"}}, files{long: "1"}, nil},
		"256 bytes":       {[]entry{{name: long + "n", body: "1"}, {name: "a", body: "2"}}, files{"a": "2"}, files{long + "n": "too long"}},
		"256 bytes dir":   {[]entry{{name: long + "n/x", body: "1"}, {name: "a", body: "2"}}, files{"a": "2"}, files{long + "n/x": "too long"}},
		"very deep":       {[]entry{{name: strings.Repeat("d/", 3000) + "x", body: "1"}}, files{}, files{strings.Repeat("d/", 3000) + "x": "more than 4096"}},
		"PAX":             {[]entry{{name: "a", body: "1", pax: map[string]string{"SCHILY.xattr.user.x": "y"}}}, files{"a": "1"}, nil},
		"itself":          {[]entry{{name: ".", typ: tar.TypeDir}, {name: "./", typ: tar.TypeDir}}, files{}, nil},
		"file called dot": {[]entry{{name: ".", body: "x"}, {name: "a", body: "1"}}, files{"a": "1"}, nil},
		"nothing":         {nil, files{}, nil},
		"not sent":        {[]entry{{name: "a", pax: map[string]string{insideproto.SkippedRecord: "it could not be read"}}, {name: "b", body: "1"}}, files{"b": "1"}, files{"a": "it could not be read"}},
		"not sent, long":  {[]entry{{name: "a", typ: tar.TypeDir, pax: map[string]string{insideproto.SkippedRecord: strings.Repeat("é", 500)}}}, files{}, files{"a": "éé"}},
		"long target":     {[]entry{{name: "l", typ: tar.TypeSymlink, link: strings.Repeat("x", 4097)}, {name: "e", typ: tar.TypeSymlink}}, files{}, files{"l": "4097 bytes", "e": "0 bytes"}},
		"setuid":          {[]entry{{name: "a", body: "1", mode: 0o6777}}, files{"a": "1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, DefaultLimits())
			got, err := tr.Unpack(archiveOf(t, c.entries...), trials.Unpack{Dir: "agent"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.stored, stored(t, tr, "agent")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			said := reasons(got)
			for n, part := range c.skipped {
				if reason, ok := said[n]; !ok || !strings.Contains(reason, part) {
					t.Errorf("%.60q is skipped as %q, want %q", n, reason, part)
				}
			}
			if len(said) != len(c.skipped) {
				t.Errorf("skipped %v, want %v", said, c.skipped)
			}
			if left := stored(t, tr, ".."); len(left) != len(c.stored)+3 { // trial/, agent/, trial.log
				t.Errorf("beside them: %v", left)
			}
		})
	}
}

func TestUnpackedModesAreHarmless(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	if _, err := tr.Unpack(archiveOf(t, entry{name: "a", mode: 0o6777}, entry{name: "b", mode: 0o100}), trials.Unpack{Dir: "agent"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"agent/a": 0o755, "agent/b": 0o700} {
		fi, err := os.Stat(tr.Path(name))
		if err != nil || fi.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, fi.Mode(), err, want)
		}
	}
}

func TestB084LimitsOfSize(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, Limits{LogBytes: 100, FileBytes: 10, TotalBytes: 25, Files: 5})
	got, err := tr.Unpack(archiveOf(t,
		entry{name: "fits", body: "0123456789"}, entry{name: "over", body: "0123456789x"},
		entry{name: "second", body: "0123456789"}, entry{name: "third", body: "012345"}, entry{name: "last", body: "01234"},
		entry{name: "link", typ: tar.TypeLink, link: "fits"},
		entry{name: "d/", typ: tar.TypeDir}, entry{name: "empty"}, entry{name: "one too many"},
	), trials.Unpack{Dir: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"over": "it has 11 bytes, more than the 10 that one file may have", "third": "the trial's files would have more than 25 bytes",
		"link": "the trial's files would have more than 25 bytes", "one too many": "the trial has 5 files already",
	}
	if diff := cmp.Diff(want, reasons(got)); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if got.Files != 4 || got.Dirs != 1 || got.Bytes != 25 {
		t.Errorf("%+v", got)
	}
	// The limits are of the trial, not of one stream.
	got, err = tr.Unpack(archiveOf(t, entry{name: "a"}), trials.Unpack{Dir: "verifier"})
	if err != nil || len(got.Skipped) != 1 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestDirectoriesCountAgainstTheLimit(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, Limits{FileBytes: 10, TotalBytes: 10, Files: 50})
	var entries []entry
	for i := range 200 {
		entries = append(entries, entry{name: fmt.Sprintf("d%d/", i), typ: tar.TypeDir})
	}
	got, err := tr.Unpack(archiveOf(t, entries...), trials.Unpack{Dir: "agent"})
	if err != nil || got.Dirs != 50 {
		t.Errorf("%d directories, %v", got.Dirs, err)
	}
}

// A sandbox may hold any number of entries; what is told about them is bounded.
func TestListOfSkippedIsBounded(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	const n = 20_000
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		var err error
		for i := 0; i < n && err == nil; i++ {
			err = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeFifo, Name: fmt.Sprintf("p%d", i)})
		}
		_ = w.CloseWithError(errors.Join(err, tw.Close()))
	}()
	got, err := tr.Unpack(r, trials.Unpack{Dir: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	last := got.Skipped[len(got.Skipped)-1]
	if len(got.Skipped) != maxSkipped+1 || last.Reason != fmt.Sprintf("%d more entries", n-maxSkipped) {
		t.Errorf("%d skipped, the last is %+v", len(got.Skipped), last)
	}
}

func TestUnpackSingleFile(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	got, err := tr.Unpack(archiveOf(t, entry{name: "report.html", body: "1"}), trials.Unpack{Dir: "artifacts/out", File: "index.html"})
	if err != nil || got.Files != 1 {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff(map[string]string{"index.html": "1"}, stored(t, tr, "artifacts/out")); diff != "" {
		t.Error(diff)
	}
}

func TestUnpackKeepsAndWants(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, DefaultLimits())
	if err := tr.Write("agent/log.txt", []byte("the host's")); err != nil {
		t.Fatal(err)
	}
	_, err := tr.Unpack(archiveOf(t, entry{name: "log.txt", body: "forged"}, entry{name: "a.json", body: "1"}, entry{name: "b.bin", body: "2"}),
		trials.Unpack{Dir: "agent", Keep: []string{"log.txt"}, Want: func(name string) bool { return strings.HasSuffix(name, ".json") || name == "log.txt" }})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"log.txt": "the host's", "a.json": "1"}, stored(t, tr, "agent")); diff != "" {
		t.Error(diff)
	}
}

func TestStreamThatBreaks(t *testing.T) {
	t.Parallel()
	whole := archiveOf(t, entry{name: "a", body: strings.Repeat("x", 2000)}).Bytes()
	lost := errors.New("the sandbox is gone")
	for name, r := range map[string]io.Reader{
		"cut off":       bytes.NewReader(whole[:1000]),
		"no archive":    strings.NewReader(strings.Repeat("no archive ", 100)),
		"error at once": io.MultiReader(failing{lost}),
		"error later":   io.MultiReader(bytes.NewReader(whole[:1000]), failing{lost}),
	} {
		tr := newTrial(t, DefaultLimits())
		_, err := tr.Unpack(r, trials.Unpack{Dir: "agent"})
		if err == nil || strings.Contains(name, "error") != errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Whatever arrives, nothing lands outside the directory, and nothing but files
// and directories in it.
func FuzzUnpack(f *testing.F) {
	for _, seed := range [][]entry{
		{{name: "a", body: "1"}, {name: "d/b", body: "2"}},
		{{name: "../x", body: "1"}, {name: "/x", body: "2"}},
		{{name: "l", typ: tar.TypeSymlink, link: "../.."}, {name: "l/x", body: "1"}},
		{{name: "a", body: "1"}, {name: "b", typ: tar.TypeLink, link: "../trial.log"}},
		{{name: "p", typ: tar.TypeFifo}},
	} {
		f.Add(archiveOf(f, seed...).Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tr := newTrial(t, Limits{FileBytes: 1 << 16, TotalBytes: 1 << 17, Files: 100})
		_, _ = tr.Unpack(bytes.NewReader(b), trials.Unpack{Dir: "agent"})
		for name, content := range stored(t, tr, "..") {
			switch {
			case name == "trial/" || name == "trial/agent/" || name == "trial/trial.log" && content == "":
			case strings.HasPrefix(name, "trial/agent/") && !strings.HasPrefix(content, "(p") && !strings.HasPrefix(content, "(L"):
			default:
				t.Errorf("%q is there: %q", name, content)
			}
		}
	})
}

// GNU tar packs files with holes in two forms; both come out whole.
func TestSparseFiles(t *testing.T) {
	t.Parallel()
	want := make([]byte, 100_000)
	copy(want[50_000:], "mid")
	copy(want[99_997:], "end")
	for _, form := range []string{"gnu", "pax"} {
		b, err := os.ReadFile(filepath.Join("testdata", "sparse-"+form+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		tr := newTrial(t, DefaultLimits())
		got, err := tr.Unpack(z, trials.Unpack{Dir: "agent"})
		if err != nil || got.Files != 1 || got.Bytes != 100_000 {
			t.Errorf("%s: %+v %v", form, got, err)
		}
		if stored, err := os.ReadFile(tr.Path("agent/sparse")); err != nil || !bytes.Equal(stored, want) {
			t.Errorf("%s: %d bytes, %v", form, len(stored), err)
		}
	}
}
