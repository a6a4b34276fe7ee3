package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"harborgate/providers"
	"harborgate/trials"
)

// collectedArtifact is what a separate verifier gets back at its old place.
type collectedArtifact struct {
	source string // absolute path inside
	stored string // name in the sink
	dir    bool
	links  []trials.Link // of a directory, not on the host
}

// missing is what of the artifacts a separate verifier does not get.
type missing struct {
	first []string // names and reasons
	count int
}

// missingShown is how many are named.
const missingShown = 3

// collectOne stores one artifact and sets its type and status. A file of which
// nothing could be stored has failed, without an error.
func (x *run) collectOne(ctx context.Context, a trials.ArtifactConfig, e *manifestEntry) error {
	source, err := x.absolute(ctx, a.Source)
	if err != nil {
		return err
	}
	tar, dir, err := x.openArtifact(ctx, source)
	if err != nil {
		return err
	}
	defer tar.Close()
	opt := trials.Unpack{Dir: path.Dir(e.Destination), File: path.Base(e.Destination)}
	if dir {
		e.Type = "directory"
		opt = trials.Unpack{Dir: e.Destination, Want: excluding(a.Exclude)}
	}
	got, err := x.t.Sink.Unpack(tar, opt)
	if err == nil && !dir {
		got, err = x.follow(ctx, source, opt, got)
	}
	var links []trials.Link
	if dir && x.separate() {
		links, got.Links = x.split(source, e.Destination, got.Links)
	}
	x.missArtifacts(opt.Dir, got.LeftOut())
	if err != nil {
		return err
	}
	if !dir && got.Files == 0 {
		e.Status = "failed"
		return nil
	}
	e.Status = "ok"
	x.artifacts = append(x.artifacts, collectedArtifact{source: source, stored: e.Destination, dir: dir, links: links})
	return nil
}

// openArtifact finds out what an artifact is without any program of the image:
// only a directory, or a link to one, can be had with a slash at its end.
func (x *run) openArtifact(ctx context.Context, source string) (tar io.ReadCloser, dir bool, err error) {
	if source == artifactsDir { // we made it; what an agent put in its place is not followed
		tar, err = download(ctx, x.sandbox, source)
		return tar, true, err
	}
	tar, err = download(ctx, x.sandbox, strings.TrimSuffix(source, "/")+"/")
	switch providers.KindOf(err) {
	case providers.KindNotFound, providers.KindInvalid: // no directory, or links in a circle
		tar, err = download(ctx, x.sandbox, source)
		return tar, false, err
	default:
		return tar, true, err
	}
}

// follow stores the file that a link leads to under the link's name, when the
// artifact turned out to be one. Without such a file, the link is all there is.
func (x *run) follow(ctx context.Context, link string, opt trials.Unpack, found trials.Unpacked) (trials.Unpacked, error) {
	if len(found.Links) == 0 {
		return found, nil
	}
	var target head
	status, err := x.sandbox.Exec(ctx, providers.Command{
		Args: []string{"readlink", "-f", link}, User: "root", Dir: "/", Stdout: &target,
	})
	if err != nil {
		return found, fmt.Errorf("resolve the link %s: %w", link, err)
	}
	name := strings.TrimSuffix(string(target), "\n")
	if !status.OK() || !path.IsAbs(name) {
		return found, nil
	}
	tar, err := download(ctx, x.sandbox, name)
	if providers.Is(err, providers.KindNotFound) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	defer tar.Close()
	return x.t.Sink.Unpack(tar, opt)
}

// head keeps the start of an output: as much as a path may have, and its newline.
type head []byte

func (h *head) Write(b []byte) (int, error) {
	const most = 4096 + 1
	*h = append(*h, b[:min(len(b), most-len(*h))]...)
	return len(b), nil
}

// download is Download with the errors of a start that shows late: from the
// first read, when the path is not there.
func download(ctx context.Context, s providers.Sandbox, name string) (io.ReadCloser, error) {
	tar, err := s.Download(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", name, err)
	}
	r := bufio.NewReader(tar)
	if _, err := r.Peek(1); err != nil && !errors.Is(err, io.EOF) {
		_ = tar.Close() // the first error counts
		return nil, fmt.Errorf("download %s: %w", name, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{r, tar}, nil
}

// missArtifacts notes what could not be stored, and keeps it for the doubt about
// a verdict that rests on it.
func (x *run) missArtifacts(dir string, left []trials.Skipped) {
	x.noteLeftOut(dir, left)
	x.missing.count += len(left)
	for _, s := range left[:min(len(left), missingShown-len(x.missing.first))] {
		x.missing.first = append(x.missing.first, fmt.Sprintf("%s/%s: %s", dir, s.Name, s.Reason))
	}
}

// split takes the links that may go to another sandbox: they lead to a place in
// the artifact, and nothing else has their name.
func (x *run) split(source, stored string, links []trials.Link) (pass, stay []trials.Link) {
	for _, l := range links {
		_, err := os.Lstat(x.t.Sink.Path(path.Join(stored, l.Name)))
		if errors.Is(err, os.ErrNotExist) && staysInside(source, l) {
			pass = append(pass, l)
		} else {
			stay = append(stay, l)
		}
	}
	return pass, stay
}

// staysInside goes by the names alone: where the link leads in the end is the
// business of the sandbox that gets it.
func staysInside(source string, l trials.Link) bool {
	if path.IsAbs(l.Target) {
		rest, ok := strings.CutPrefix(path.Clean(l.Target), strings.TrimSuffix(source, "/"))
		return ok && (rest == "" || rest[0] == '/')
	}
	return filepath.IsLocal(path.Join(path.Dir(l.Name), l.Target))
}

// excluding leaves out what tar's --exclude would: a pattern that matches a name
// or any of its parts.
func excluding(patterns []string) func(string) bool {
	if len(patterns) == 0 {
		return nil
	}
	return func(name string) bool {
		for p := name; p != "." && p != "/"; p = path.Dir(p) {
			for _, pat := range patterns {
				pat = strings.TrimPrefix(strings.TrimSuffix(pat, "/"), "./")
				if ok, _ := path.Match(pat, p); ok {
					return false
				}
				if ok, _ := path.Match(pat, path.Base(p)); ok {
					return false
				}
			}
		}
		return true
	}
}

func (x *run) absolute(ctx context.Context, source string) (string, error) {
	if path.IsAbs(source) {
		return path.Clean(source), nil
	}
	wd, err := x.workdir(ctx)
	return path.Join(wd, source), err
}
