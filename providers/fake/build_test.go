package fake

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/providers"
)

// contextDir writes a build context.
func contextDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBuildRunsSimpleDockerfiles(t *testing.T) {
	t.Parallel()
	dir := contextDir(t, map[string]string{
		"Dockerfile": strings.Join([]string{
			"# syntax=docker/dockerfile:1",
			"ARG VERSION=1",
			"FROM debian:bookworm-slim AS main",
			"ENV A=1 B=\"two words\"",
			"ENV C old style",
			"WORKDIR /app",
			"RUN apt-get update && \\",
			"    # a comment between",
			"    apt-get install -y curl",
			"COPY src/ ./src",
			"COPY one.txt two.txt /data/",
			"COPY *.txt globbed/",
			"WORKDIR sub",
			`RUN ["sh", "-c", "echo $B > made"]`,
			"USER nobody",
			"CMD [\"bash\"]",
		}, "\n"),
		"src/deep/file": "deep", "one.txt": "1", "two.txt": "2",
	})
	p := New(Options{})
	img, err := p.BuildImage(t.Context(), providers.Build{ContextDir: dir, Labels: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	if img.User != "nobody" || img.Labels["k"] != "v" || !strings.HasPrefix(img.ID, "sha256:") {
		t.Errorf("image %+v", img)
	}
	sb, err := p.Create(t.Context(), providers.Spec{Name: providers.Name(t.Name()), Source: providers.Source{Image: img.ID}})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	script := "id -un; pwd; cat made ../src/deep/file /data/one.txt ../globbed/two.txt; echo \"|$A|$B|$C\""
	_, err = sb.Exec(t.Context(), providers.Command{Args: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if want := "nobody\n/app/sub\ntwo words\ndeep12|1|two words|old style\n"; err != nil || out.String() != want {
		t.Errorf("printed %q, error %v, want %q", out.String(), err, want)
	}
	if err := p.RemoveImage(t.Context(), img.ID); !providers.Is(err, providers.KindDenied) {
		t.Errorf("removing an image in use: %v, want denied", err)
	}
	again, err := p.BuildImage(t.Context(), providers.Build{ContextDir: dir})
	if err != nil || again.ID != img.ID {
		t.Errorf("the same content gave %s, error %v, want %s", again.ID, err, img.ID)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestBuildErrorsNameTheLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ dockerfile, want string }{
		"a failing command":      {"FROM x\nRUN echo because; exit 3", "line 2: RUN: \"echo because; exit 3\" failed with exit code 3\nbecause"},
		"an unknown instruction": {"FROM x\n\nFETCH y", "line 3: unknown instruction \"FETCH\""},
		"a missing source":       {"FROM x\nCOPY nothing /", "\"nothing\" is not in the build context"},
		"another stage":          {"FROM x\nCOPY --from=y a b", "another stage"},
		"something before FROM":  {"RUN true", "before FROM"},
		"nothing":                {"# empty", "no FROM"},
		"a source above":         {"FROM x\nCOPY ../up /", "is not in the build context"},
	} {
		dir := contextDir(t, map[string]string{"Dockerfile": test.dockerfile})
		_, err := New(Options{}).BuildImage(t.Context(), providers.Build{ContextDir: dir})
		if !providers.Is(err, providers.KindInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
	_, err := New(Options{}).BuildImage(t.Context(), providers.Build{ContextDir: filepath.Join(t.TempDir(), "none")})
	if !providers.Is(err, providers.KindInvalid) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing context: %v", err)
	}
}

func FuzzParseDockerfile(f *testing.F) {
	f.Add("FROM a\nRUN b \\\n c\n# d\nCOPY e f")
	f.Add("FROM a \\\n# x\n\\\n")
	f.Add("\\\n\\")
	f.Fuzz(func(t *testing.T, src string) {
		steps, err := parseDockerfile(src)
		if err != nil {
			return
		}
		last := 0
		for _, s := range steps {
			if s.line <= last || s.line > strings.Count(src, "\n")+1 || !knownInstruction(s.op) {
				t.Errorf("instruction %+v after line %d of %q", s, last, src)
			}
			last = s.line
		}
	})
}
