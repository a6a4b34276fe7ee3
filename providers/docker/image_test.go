package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	lru "github.com/hashicorp/golang-lru/v2"

	"harborgate/providers"
)

// stub is an engine whose images are scripted.
type stub struct {
	engine
	present  map[string]image.InspectResponse
	pull     string // body of the answer
	pullErr  error
	pulled   []string
	build    string
	context  []byte
	removed  error
	inspects int
	listed   []image.Summary
}

func (s *stub) ImageList(context.Context, image.ListOptions) ([]image.Summary, error) {
	return s.listed, nil
}

func (s *stub) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	s.inspects++
	if got, ok := s.present[ref]; ok {
		return got, nil
	}
	return image.InspectResponse{}, fmt.Errorf("no such image: %s: %w", ref, cerrdefs.ErrNotFound)
}

func (s *stub) ImagePull(_ context.Context, ref string, _ image.PullOptions) (io.ReadCloser, error) {
	s.pulled = append(s.pulled, ref)
	if s.pullErr != nil {
		return nil, s.pullErr
	}
	if !strings.Contains(s.pull, "error") {
		s.present[ref] = image.InspectResponse{ID: "sha256:1", Os: "linux", Architecture: "amd64"}
	}
	return io.NopCloser(strings.NewReader(s.pull)), nil
}

func (s *stub) ImageBuild(_ context.Context, in io.Reader, _ build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	var err error
	s.context, err = io.ReadAll(in)
	return build.ImageBuildResponse{Body: io.NopCloser(strings.NewReader(s.build))}, err
}

func (s *stub) ImageRemove(context.Context, string, image.RemoveOptions) ([]image.DeleteResponse, error) {
	return nil, s.removed
}

func stubbed(t *testing.T, s *stub) *Provider {
	t.Helper()
	configs, err := lru.New[string, imageConfig](8)
	if err != nil {
		t.Fatal(err)
	}
	if s.present == nil {
		s.present = map[string]image.InspectResponse{}
	}
	return &Provider{name: "docker", engine: s, configs: configs, facts: &facts{arch: "amd64"}}
}

func TestPull(t *testing.T) {
	t.Parallel()
	const progress = `{"status":"Pulling from library/debian","id":"12"}
{"status":"Downloading","id":"a","progressDetail":{"current":1,"total":9}}
{"status":"Downloading","id":"a","progressDetail":{"current":9,"total":9}}
{"status":"Pull complete","id":"a"}
`
	for name, c := range map[string]struct {
		stub stub
		ref  string
		kind providers.Kind
		said string
	}{
		"works":             {stub{pull: progress}, "debian:12", 0, ""},
		"error in progress": {stub{pull: progress + `{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}`}, "debian:nosuch", providers.KindNotFound, "docker load"},
		"rate limited":      {stub{pull: `{"error":"toomanyrequests: slow down"}`}, "debian:12", providers.KindRateLimited, "toomanyrequests"},
		"refused":           {stub{pullErr: fmt.Errorf("pull access denied for x: %w", cerrdefs.ErrNotFound)}, "x", providers.KindDenied, "docker login"},
		"network":           {stub{pullErr: errors.New("dial tcp: lookup registry: no such host")}, "x", providers.KindUnavailable, "no such host"},
		"cut off":           {stub{pull: `{"status":"Down`}, "x", providers.KindUnavailable, "EOF"},
		"no reference":      {stub{}, "Not A Reference", providers.KindInternal, "image reference"},
		"content id":        {stub{}, "sha256:" + strings.Repeat("0", 64), providers.KindNotFound, "no such image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := stubbed(t, &c.stub)
			var out bytes.Buffer
			img, err := p.PullImage(t.Context(), c.ref, &out)
			if c.said == "" {
				if err != nil || img.ID != "sha256:1" {
					t.Fatalf("%+v %v", img, err)
				}
				if got := strings.Count(out.String(), "\n"); got != 3 || !strings.Contains(out.String(), "pull debian:12: a Pull complete") {
					t.Errorf("%d lines of progress: %s", got, out.String())
				}
				return
			}
			if !providers.Is(err, c.kind) || !strings.Contains(err.Error(), c.said) {
				t.Errorf("%v (%s), want %s with %q", err, providers.KindOf(err), c.kind, c.said)
			}
		})
	}
}

func TestPresentImagesAreNotPulled(t *testing.T) {
	t.Parallel()
	id := "sha256:" + strings.Repeat("a", 64)
	s := &stub{present: map[string]image.InspectResponse{
		"debian:12": {ID: id, Os: "linux"}, id: {ID: id, Os: "linux"}, "win": {ID: "sha256:w", Os: "windows"},
	}}
	p := stubbed(t, s)
	for range 2 {
		for _, ref := range []string{"debian:12", id} {
			if c, err := p.imageFor(t.Context(), providers.Spec{Source: providers.Source{Image: ref}}); err != nil || c.ID != id {
				t.Errorf("%+v %v", c, err)
			}
		}
	}
	if len(s.pulled) != 0 || s.inspects != 3 { // a tag may move, so it is looked at each time
		t.Errorf("pulled %v, inspected %d times", s.pulled, s.inspects)
	}
	if _, err := p.InspectImage(t.Context(), "win"); !providers.Is(err, providers.KindUnsupported) {
		t.Errorf("%v", err)
	}
}

func TestRemoveImageOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		kind providers.Kind
	}{
		{nil, 0}, {cerrdefs.ErrNotFound, 0}, {cerrdefs.ErrConflict, providers.KindDenied},
		{&net.OpError{Op: "dial", Err: errors.New("x")}, providers.KindUnavailable},
	} {
		err := stubbed(t, &stub{removed: c.err}).RemoveImage(t.Context(), "sha256:1")
		if (err == nil) != (c.kind == 0) || err != nil && !providers.Is(err, c.kind) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// buildContext makes a directory with these files.
func buildContext(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func packed(t *testing.T, b []byte) map[string]*tar.Header {
	t.Helper()
	out := map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		hdr, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[hdr.Name] = hdr
	}
}

func TestPackContextFollowsDockerignore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ignore string
		want   []string
	}{
		"none":      {"", []string{"Dockerfile", "a.txt", "d", "d/b.log", "d/c.txt", "keep.log"}},
		"pattern":   {"**/*.log\n", []string{".dockerignore", "Dockerfile", "a.txt", "d", "d/c.txt"}},
		"exception": {"*.log\n!keep.log\n# comment\n", []string{".dockerignore", "Dockerfile", "a.txt", "d", "d/b.log", "d/c.txt", "keep.log"}},
		"directory": {"d\n", []string{".dockerignore", "Dockerfile", "a.txt", "keep.log"}},
		"inside it": {"d\n!d/c.txt\n", []string{".dockerignore", "Dockerfile", "a.txt", "d/c.txt", "keep.log"}},
		"all":       {"*\n", []string{".dockerignore", "Dockerfile"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"Dockerfile": "FROM x\n", "a.txt": "1", "d/b.log": "2", "d/c.txt": "3", "keep.log": "4"}
			if c.ignore != "" {
				files[".dockerignore"] = c.ignore
			}
			s := &stub{build: `{"stream":"ok\n"}`}
			var log bytes.Buffer
			b := providers.Build{ContextDir: buildContext(t, files), Dockerfile: "Dockerfile", Tag: "x"}
			if err := stubbed(t, s).buildClassic(t.Context(), b, &log); err != nil || log.String() != "ok\n" {
				t.Fatalf("%v, log %q", err, log.String())
			}
			var got []string
			for name := range packed(t, s.context) {
				got = append(got, strings.TrimSuffix(name, "/"))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("sent %q, want %q", got, c.want)
			}
		})
	}
}

func TestPackContextKeepsKindsAndDropsOwners(t *testing.T) {
	t.Parallel()
	dir := buildContext(t, map[string]string{"Dockerfile": "FROM x\n", "run.sh": "x"})
	if err := errors.Join(os.Chmod(filepath.Join(dir, "run.sh"), 0o750), os.Symlink("/etc/passwd", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	linked := filepath.Join(t.TempDir(), "environment") // as a task may have it
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	s := &stub{}
	if err := stubbed(t, s).buildClassic(t.Context(), providers.Build{ContextDir: linked, Dockerfile: "Dockerfile"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	got := packed(t, s.context)
	if h := got["run.sh"]; h == nil || h.Mode != 0o750 || h.Uid != 0 || h.Uname != "" {
		t.Errorf("%+v", h)
	}
	if h := got["link"]; h == nil || h.Typeflag != tar.TypeSymlink || h.Linkname != "/etc/passwd" {
		t.Errorf("%+v", h)
	}
	if len(got) != 3 {
		t.Errorf("%d entries", len(got))
	}
}

func TestFailedBuild(t *testing.T) {
	t.Parallel()
	dir := buildContext(t, map[string]string{"Dockerfile": "FROM x\nRUN false\n"})
	s := &stub{build: `{"stream":"Step 2/2 : RUN false\n"}` + "\n" + `{"errorDetail":{"code":1},"error":"The command '/bin/sh -c false' returned a non-zero code: 1"}`}
	_, err := stubbed(t, s).BuildImage(t.Context(), providers.Build{ContextDir: dir, Tag: "x"})
	if !providers.Is(err, providers.KindInvalid) || !strings.Contains(err.Error(), "non-zero code: 1") || !strings.Contains(err.Error(), "Step 2/2") {
		t.Errorf("%v", err)
	}
	if _, err := stubbed(t, s).BuildImage(t.Context(), providers.Build{ContextDir: dir, Dockerfile: "Other", Tag: "x"}); !providers.Is(err, providers.KindInvalid) {
		t.Errorf("%v", err)
	}
}

func TestTailBuffer(t *testing.T) {
	t.Parallel()
	b := &tailBuffer{max: 10}
	for i := range 100 {
		fmt.Fprintf(b, "%03d,", i)
	}
	if got := b.String(); got != "7,098,099," {
		t.Errorf("%q", got)
	}
}

func TestLineWriter(t *testing.T) {
	t.Parallel()
	var got []string
	w := lineWriter(func(s string) { got = append(got, s) })
	for _, s := range []string{"a", "b\nc\n", "", "\n", "rest"} {
		if n, err := io.WriteString(w, s); n != len(s) || err != nil {
			t.Errorf("%d %v", n, err)
		}
	}
	if !slices.Equal(got, []string{"ab", "c", ""}) {
		t.Errorf("%q", got)
	}
	if lineWriter(nil) != nil {
		t.Error("no reader needs no writer")
	}
}

// An image's names and what it was committed of tell ours from what a user made of it.
func TestListedImagesHaveTheirNames(t *testing.T) {
	t.Parallel()
	s := &stub{listed: []image.Summary{
		{ID: "1", RepoTags: []string{"a:1", "b:2"}}, {ID: "2", RepoTags: []string{"<none>:<none>"}, ParentID: "1"}, {ID: "3"},
	}}
	got, err := stubbed(t, s).ListImages(t.Context(), nil)
	if err != nil || len(got) != 3 || !slices.Equal(got[0].Tags, []string{"a:1", "b:2"}) || len(got[1].Tags)+len(got[2].Tags) > 0 || got[1].Parent != "1" {
		t.Errorf("%+v %v", got, err)
	}
}
