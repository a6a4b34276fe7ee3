package runner

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	"harborgate/trials"
)

// Source is an earlier trial whose work is graded once more.
type Source struct {
	Dir    string // of the trial
	Result *trials.Result
}

// kept are the directories of a source that the new trial gets copies of.
var kept = []string{"agent", "artifacts"}

// regrade grades what an earlier trial left, with the tests of today. No agent
// runs, so nothing but the verifier has a timing.
func (x *run) regrade(ctx context.Context) *trials.Failure {
	if !x.separate() {
		return invalid(fmt.Errorf("task %s cannot be graded again: its verifier needs the agent's own sandbox (environment_mode = \"separate\" does not)", x.t.Task.Name))
	}
	for _, dir := range kept {
		if err := x.copySource(dir); err != nil {
			return trials.NewFailure(trials.PhaseArtifacts, x.hostCause(err), "", fmt.Sprintf("copy %s of the earlier trial: %v", dir, err))
		}
	}
	if err := x.findArtifacts(); err != nil {
		return invalid(fmt.Errorf("the earlier trial cannot be graded again: %w", err))
	}
	x.collected = true
	f := x.stage(ctx, func(ctx context.Context) (err error) {
		x.verifierImage, err = x.image(ctx, x.r.opt.Images.Verifier)
		return err
	})
	if f != nil {
		return f
	}
	return x.verify(ctx)
}

// copySource copies through the way that files come out of sandboxes: links are
// not made, limits hold.
func (x *run) copySource(dir string) error {
	r, w := io.Pipe()
	go func() {
		t := tar.NewWriter(w)
		err := packDir(t, filepath.Join(x.t.Source.Dir, dir), nil, nil)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // it left none
		}
		w.CloseWithError(errors.Join(err, t.Close()))
	}()
	got, err := x.t.Sink.Unpack(r, trials.Unpack{Dir: dir})
	_ = r.Close()
	x.missArtifacts(dir, got.LeftOut())
	return err
}

// mostManifest is more than any manifest needs.
const mostManifest = 4 << 20

// findArtifacts takes from the manifest what the verifier gets back, and where.
func (x *run) findArtifacts() error {
	b, err := x.t.Sink.Read(manifestFile, mostManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("it has no " + manifestFile)
	}
	var entries []manifestEntry
	if err == nil {
		err = json.Unmarshal(b, &entries)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", manifestFile, err)
	}
	for _, e := range entries {
		if e.Status != "ok" {
			continue
		}
		source := e.Source
		if !path.IsAbs(source) {
			wd := x.t.Task.Config.Environment.Workdir
			if wd == "" {
				return fmt.Errorf("artifact %s has a relative path, and the task does not name its working directory", e.Source)
			}
			source = path.Join(wd, source)
		}
		if !filepath.IsLocal(filepath.FromSlash(e.Destination)) {
			return fmt.Errorf("%s: destination %q leads out of the trial", manifestFile, e.Destination)
		}
		x.artifacts = append(x.artifacts, collectedArtifact{
			source: path.Clean(source), stored: e.Destination, dir: e.Type == "directory",
		})
	}
	return nil
}

// takeOver fills in what the earlier trial says about its agent.
func (x *run) takeOver(s *trials.Result) {
	x.res.AgentInfo, x.res.AgentResult = s.AgentInfo, s.AgentResult
}
