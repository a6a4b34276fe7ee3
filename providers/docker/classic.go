package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docker/docker/api/types/build"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"harborgate/providers"
)

// buildClassic sends the context as a tar stream to the engine's old builder.
func (p *Provider) buildClassic(ctx context.Context, b providers.Build, log io.Writer) error {
	ignore, err := ignored(b)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(packContext(w, b.ContextDir, ignore)) }()
	defer r.Close()
	res, err := p.engine.ImageBuild(ctx, r, build.ImageBuildOptions{
		Version: build.BuilderV1, Tags: []string{b.Tag}, Dockerfile: b.Dockerfile,
		Labels: b.Labels, NoCache: b.NoCache, Remove: true, ForceRemove: true,
	})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return followBuild(res.Body, log)
}

func followBuild(body io.Reader, log io.Writer) error {
	dec := json.NewDecoder(body)
	for {
		var m struct{ Stream, Status, Error string }
		switch err := dec.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
		if _, err := io.WriteString(log, m.Stream); err != nil {
			return err
		}
	}
}

// ignored reads .dockerignore. The Dockerfile and the file itself are always sent.
func ignored(b providers.Build) (*patternmatcher.PatternMatcher, error) {
	f, err := os.Open(filepath.Join(b.ContextDir, ".dockerignore"))
	if errors.Is(err, fs.ErrNotExist) {
		return patternmatcher.New(nil)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf(".dockerignore: %w", err)
	}
	return patternmatcher.New(append(patterns, "!.dockerignore", "!"+b.Dockerfile))
}

// packContext writes the context directory as tar, links as links.
func packContext(w io.Writer, dir string, ignore *patternmatcher.PatternMatcher) error {
	t := tar.NewWriter(w)
	// The separator makes a directory that is itself a link be walked.
	err := filepath.WalkDir(dir+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == "." {
			return err
		}
		skip, err := ignore.MatchesOrParentMatches(filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		if skip {
			if d.IsDir() && !ignore.Exclusions() {
				return filepath.SkipDir
			}
			return nil
		}
		return packEntry(t, path, filepath.ToSlash(rel), d)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func packEntry(t *tar.Writer, path, rel string, d fs.DirEntry) error {
	fi, err := d.Info()
	if err != nil {
		return err
	}
	if fi.Mode()&fs.ModeSocket != 0 {
		return nil // it has no content and no place in an archive
	}
	link := ""
	if fi.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	hdr, err := tar.FileInfoHeader(fi, link)
	if err != nil {
		return err
	}
	hdr.Name, hdr.Uid, hdr.Gid, hdr.Uname, hdr.Gname = rel, 0, 0, "", ""
	if err := t.WriteHeader(hdr); err != nil || !fi.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(t, f)
	return err
}
