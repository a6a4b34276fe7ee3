package providertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"harborgate/providers"
)

// entry is one entry of a tar stream.
type entry struct {
	name string
	mode int64
	body string
	kind byte   // 0 is a file
	link string // of a link
}

func file(name, body string) entry { return entry{name: name, mode: 0o644, body: body} }

func dir(name string) entry { return entry{name: name, mode: 0o755, kind: tar.TypeDir} }

func symlink(name, target string) entry {
	return entry{name: name, mode: 0o777, kind: tar.TypeSymlink, link: target}
}

// archive writes a tar stream.
func archive(e *Env, entries ...entry) *bytes.Buffer {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, en := range entries {
		h := &tar.Header{
			Name: en.name, Mode: en.mode, Size: int64(len(en.body)), Typeflag: en.typeflag(), Linkname: en.link,
			ModTime: time.Unix(1_600_000_000, 0),
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(w, en.body)
		}
		if err != nil {
			e.Fatalf("make tar entry %q: %v", en.name, err)
		}
	}
	if err := w.Close(); err != nil {
		e.Fatalf("make tar: %v", err)
	}
	return &b
}

// upload uploads entries that must be accepted.
func (e *Env) upload(ctx context.Context, sb providers.Sandbox, dest string, entries ...entry) {
	if err := sb.Upload(ctx, archive(e, entries...), dest); err != nil {
		e.Fatalf("upload to %s: %v", dest, err)
	}
}

// fact is what a tar stream says about one entry.
type fact struct {
	kind byte
	mode int64
	size int64
	sum  string // of the content
	link string
	uid  int
}

// download reads everything below path, by name. Directories have no slash.
func (e *Env) download(ctx context.Context, sb providers.Sandbox, path string) map[string]fact {
	got, err := readAll(ctx, sb, path)
	if err != nil {
		e.Fatalf("download %s: %v", path, err)
	}
	return got
}

func readAll(ctx context.Context, sb providers.Sandbox, path string) (map[string]fact, error) {
	stream, err := sb.Download(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	out := map[string]fact{}
	r := tar.NewReader(stream)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			// What follows the end of the archive must be a clean end, too.
			_, err = io.Copy(io.Discard, stream)
			return out, err
		}
		if err != nil {
			return out, err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return out, err
		}
		name := h.Name
		if h.Typeflag == tar.TypeDir && len(name) > 1 && name[len(name)-1] == '/' {
			name = name[:len(name)-1]
		}
		out[name] = fact{h.Typeflag, h.Mode & 0o7777, h.Size, hex.EncodeToString(sum.Sum(nil)), h.Linkname, h.Uid}
	}
}

func sumOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// wantEntries checks that the entries came back as they went.
func (e *Env) wantEntries(got map[string]fact, want ...entry) {
	for _, w := range want {
		g, ok := got[w.name]
		switch {
		case !ok:
			e.Errorf("%q did not come back; got %d entries", w.name, len(got))
		case !w.cameBackAs(g):
			e.Errorf("%q came back as %+v, want kind %q, mode %o, link %q and %d bytes unchanged",
				w.name, g, w.typeflag(), w.mode, w.link, len(w.body))
		}
	}
	if len(got) != len(want) {
		e.Errorf("%d entries came back, want %d", len(got), len(want))
	}
}

func (w entry) typeflag() byte {
	if w.kind == 0 {
		return tar.TypeReg
	}
	return w.kind
}

// cameBackAs compares what matters for the kind: a link has no mode and a
// directory no content.
func (w entry) cameBackAs(g fact) bool {
	if g.kind != w.typeflag() {
		return false
	}
	switch w.kind {
	case tar.TypeSymlink:
		return g.link == w.link
	case tar.TypeDir:
		return g.mode == w.mode
	}
	return g.mode == w.mode && g.sum == sumOf(w.body)
}
