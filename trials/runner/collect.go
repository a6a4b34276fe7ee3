package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"harborgate/providers"
	"harborgate/trials"
)

const (
	// collectLimit bounds the collection of logs and artifacts as a whole.
	collectLimit = 10 * time.Minute
	// salvageLimit bounds it when the try failed or was cancelled.
	salvageLimit = 20 * time.Second
	manifestFile = "artifacts/manifest.json"
)

// manifestEntry is one line of artifacts/manifest.json.
type manifestEntry struct {
	Source      string   `json:"source"`
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Status      string   `json:"status"`
	Service     *string  `json:"service"`
	Exclude     []string `json:"exclude"`
}

// collect brings the agent's logs and all artifacts out of the sandbox. Only a
// separate verifier, which lives on artifacts alone, makes a failure of it count.
func (x *run) collect(ctx context.Context) *trials.Failure {
	ctx, cancel := withLimit(ctx, trials.PhaseArtifacts, trials.Limit{Seconds: collectLimit.Seconds(), Origin: "fixed"})
	defer cancel()
	begun := time.Now()
	err := x.bringOut(ctx)
	f := x.explain(ctx, trials.PhaseArtifacts, time.Since(begun), err)
	switch {
	case f == nil:
		return nil
	case f.Cause == trials.CauseCancelled, f.Cause == trials.CauseSandboxLost, f.Cause == trials.CauseOutOfMemory, x.separate():
		return f
	default:
		x.note("collect_failed", f.Message)
		return nil
	}
}

// salvage saves what can be saved after a failure, quickly.
func (x *run) salvage() {
	if x.collected || x.removed || x.sandbox == nil || x.t.Config.InstallOnly {
		return
	}
	limit := salvageLimit
	if x.res.Cancelled() {
		limit = graceful
	}
	ctx, cancel := context.WithTimeout(x.cutter.uncut, limit)
	defer cancel()
	if err := x.bringOut(ctx); err != nil {
		x.log.Info("logs could not be saved", "error", err)
	}
}

func (x *run) bringOut(ctx context.Context) error {
	x.collected = true
	if x.kwargs.autoMounting {
		if err := x.ownMounts(ctx); err != nil {
			x.note("collect_failed", err.Error())
		}
	}
	err := x.collectAgentLogs(ctx)
	if err != nil && ctx.Err() != nil {
		x.manifestOfNothing()
		return err
	}
	if err != nil { // artifacts may be had all the same
		x.note("collect_failed", err.Error())
	}
	x.runCollectHooks(ctx)
	entries, err := x.collectArtifacts(ctx)
	if werr := x.writeManifest(entries); werr != nil {
		return werr
	}
	return err
}

// ownMounts gives mounted files to this process's user, who may then read and
// remove them. Links are not followed.
func (x *run) ownMounts(ctx context.Context) error {
	return x.root(ctx, x.sandbox, "give mounted logs to the host's user", fmt.Sprintf("chown -R %[1]s %[2]s && chmod -R u+rwX %[2]s", hostOwner(), logsDir))
}

// runCollectHooks runs the task's own commands that prepare artifacts.
func (x *run) runCollectHooks(ctx context.Context) {
	for _, h := range x.t.Task.Config.Verifier.Collect {
		hctx, cancel := context.WithTimeout(ctx, time.Duration(h.TimeoutSec*float64(time.Second)))
		var out tail
		status, err := x.sandbox.Exec(hctx, providers.Command{
			Args: shell(h.Command), User: h.User, SecretEnv: x.env.secret, Stdout: &out, Stderr: &out,
		})
		cancel()
		if err != nil || !status.OK() {
			x.note("collect_failed", fmt.Sprintf("collect command %q: %s %v %s", h.Command, status, err, out))
		}
	}
}

// wantedArtifacts are the convention directory, the task's and the job's
// artifacts. An explicit entry for the directory replaces the implicit one.
func (x *run) wantedArtifacts() []trials.ArtifactConfig {
	var out []trials.ArtifactConfig
	for _, a := range x.t.Task.Config.Artifacts {
		out = append(out, trials.ArtifactConfig{Source: a.Source, Destination: optional(a.Destination), Exclude: a.Exclude, Service: optional(a.Service)})
	}
	out = append(out, x.t.Config.Artifacts...)
	for _, a := range out {
		if path.Clean(a.Source) == artifactsDir {
			return out
		}
	}
	return append([]trials.ArtifactConfig{{Source: artifactsDir}}, out...)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (x *run) collectArtifacts(ctx context.Context) (entries []manifestEntry, first error) {
	var taken []string
	for _, a := range x.wantedArtifacts() {
		e := entryOf(a)
		switch {
		case path.Clean(a.Source) == artifactsDir && x.kwargs.autoMounting:
			e.Type, e.Status = "directory", "ok"
			if x.emptyDir(e.Destination) {
				e.Status = "empty"
			}
		case overlaps(taken, e.Destination):
			e.Status = "skipped"
			x.note("artifact_skipped", fmt.Sprintf("artifact %s: %s is taken by an earlier one", a.Source, e.Destination))
		default:
			taken = append(taken, e.Destination)
			err := x.collectOne(ctx, a, &e)
			if err != nil {
				e.Status = "failed"
				x.log.Info("artifact not collected", "source", a.Source, "error", err)
				first = x.orObstructed(ctx, first, e, err)
			}
		}
		entries = append(entries, e)
	}
	return entries, first
}

// orObstructed is what a failure to collect means for the others: nothing, when it is an
// agent's doing, which must not cost the verdict.
func (x *run) orObstructed(ctx context.Context, first error, e manifestEntry, err error) error {
	switch {
	case first != nil, ctx.Err() == nil && providers.Is(err, providers.KindNotFound):
		return first
	case ctx.Err() == nil && obstructed(err):
		x.missArtifacts(path.Dir(e.Destination), []trials.Skipped{{Name: path.Base(e.Destination), Reason: err.Error()}})
		return nil
	}
	return err
}

func entryOf(a trials.ArtifactConfig) manifestEntry {
	dest := strings.TrimLeft(path.Clean("/"+a.Source), "/")
	if a.Destination != nil {
		dest = path.Clean(*a.Destination)
	}
	e := manifestEntry{Source: a.Source, Destination: "artifacts/" + dest, Type: "file", Service: a.Service, Exclude: a.Exclude}
	if e.Exclude == nil {
		e.Exclude = []string{}
	}
	return e
}

func overlaps(taken []string, dest string) bool {
	for _, t := range taken {
		if t == dest || strings.HasPrefix(dest, t+"/") || strings.HasPrefix(t, dest+"/") {
			return true
		}
	}
	return false
}

func (x *run) emptyDir(name string) bool {
	names, err := dirNames(x.t.Sink.Path(name))
	return err == nil && len(names) == 0
}

func (x *run) writeManifest(entries []manifestEntry) error {
	b, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return err
	}
	return x.t.Sink.Write(manifestFile, b)
}

// manifestOfNothing says that there was no sandbox to collect from.
func (x *run) manifestOfNothing() {
	var entries []manifestEntry
	for _, a := range x.wantedArtifacts() {
		e := entryOf(a)
		e.Status = "failed"
		entries = append(entries, e)
	}
	if err := x.writeManifest(entries); err != nil {
		x.log.Warn("manifest could not be written", "error", err)
	}
	x.collected = true
}
