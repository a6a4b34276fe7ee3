package providertest

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"harborgate/providers"
)

func optionalCases() []Case {
	return []Case{
		{"snapshot/restores", []Need{NeedSnapshots}, inSandbox(snapshotRestores)},
		{"snapshot/behaves-as-its-image", []Need{NeedSnapshots}, snapshotBehaves},
		{"snapshot/unknown", []Need{NeedSnapshots}, snapshotUnknown},
		{"stop/keeps-the-disk", []Need{NeedStops}, inSandbox(stopKeeps)},
		{"build/runs", []Need{NeedBuilds}, buildRuns},
		{"build/failure-shows-its-log", []Need{NeedBuilds}, buildFails},
		{"build/unknown-image", []Need{NeedBuilds, NeedUnknown}, buildUnknown},
	}
}

// optional returns an interface that the capabilities promise.
func optional[T any](e *Env) T {
	t, ok := providers.As[T](e.Provider)
	if !ok {
		e.Fatalf("declared, but not implemented: %T", t)
	}
	return t
}

func snapshotRestores(ctx context.Context, e *Env, sb providers.Sandbox) {
	keeper := optional[providers.Snapshotter](e)
	e.Must(ctx, sb, "mkdir -p /data/deep; echo kept > /data/deep/file; chmod 640 /data/deep/file; ln -s deep /data/link")
	ref, err := keeper.Snapshot(ctx, sb.ID(), e.Spec().Name, e.Spec().Labels.Map())
	if err != nil {
		e.Fatalf("snapshot: %v", err)
	}
	defer func() {
		if err := keeper.DeleteSnapshot(context.WithoutCancel(ctx), ref); err != nil {
			e.Errorf("delete snapshot: %v", err)
		}
	}()
	e.Want(ctx, sb, "echo changed > /data/deep/file; cat /data/link/file", "changed\n")
	from := func(s *providers.Spec) { s.Source = providers.Source{Snapshot: ref} }
	a, b := e.Create(ctx, from), e.Create(ctx, from)
	e.Want(ctx, a, "cat /data/link/file; stat -c %a /data/deep/file; echo a > /data/deep/file", "kept\n640\n")
	e.Want(ctx, b, "cat /data/link/file", "kept\n")
	e.Want(ctx, sb, "cat /data/link/file", "changed\n")
	for _, s := range []providers.Sandbox{a, b} {
		if err := s.Destroy(ctx); err != nil {
			e.Errorf("destroy: %v", err)
		}
	}
}

// snapshotBehaves holds a sandbox from a snapshot against the image that the first one
// came from.
func snapshotBehaves(ctx context.Context, e *Env) {
	keeper := optional[providers.Snapshotter](e)
	sb := e.Create(ctx, func(s *providers.Spec) {
		s.Source, s.Workdir, s.Env, s.Idle = e.Harness.Sources.Service, "/tmp", map[string]string{"OF_SPEC": "left"}, true
	})
	e.Want(ctx, sb, "pwd; echo $OF_SPEC; touch /tmp/ping", "/tmp\nleft\n")
	ref, err := keeper.Snapshot(ctx, sb.ID(), e.Spec().Name, map[string]string{"providertest.key": "value"})
	if err != nil {
		e.Fatalf("snapshot: %v", err)
	}
	defer func() {
		for range 2 {
			if err := keeper.DeleteSnapshot(context.WithoutCancel(ctx), ref); err != nil {
				e.Errorf("delete snapshot: %v", err)
			}
		}
		_, err := keeper.InspectSnapshot(context.WithoutCancel(ctx), ref)
		e.WantKind("inspect after delete", err, providers.KindNotFound)
	}()
	img, err := keeper.InspectSnapshot(ctx, ref)
	if _, ours := img.Labels[providers.LabelOwner]; err != nil || ours || img.Labels["providertest.key"] != "value" {
		e.Errorf("inspect: %+v, %v", img, err)
	}
	again := e.Create(ctx, func(s *providers.Spec) { s.Source = providers.Source{Snapshot: ref} })
	e.Want(ctx, again, "pwd; echo $OF_SPEC; until [ -e /tmp/pong ]; do sleep 0.05; done", "/\n\n")
	e.Want(ctx, sb, "ls /tmp/ping", "/tmp/ping\n")
	for _, s := range []providers.Sandbox{again, sb} {
		if err := s.Destroy(ctx); err != nil {
			e.Errorf("destroy: %v", err)
		}
	}
}

func snapshotUnknown(ctx context.Context, e *Env) {
	s := e.Spec()
	s.Source = providers.Source{Snapshot: "hg-no-such-snapshot"}
	sb, err := e.Provider.Create(ctx, s)
	if err == nil {
		e.keep(sb)
	}
	e.WantKind("create from an unknown snapshot", err, providers.KindNotFound)
	e.wantNothing(ctx)
}

func stopKeeps(ctx context.Context, e *Env, sb providers.Sandbox) {
	stopper := optional[providers.Stopper](e)
	e.Must(ctx, sb, "echo kept > /srv/file; "+mark(1)+" >/dev/null 2>&1 & "+awaitMarks(1, 1))
	if err := stopper.Stop(ctx, sb.ID()); err != nil {
		e.Fatalf("stop: %v", err)
	}
	e.WantKind("exec in a stopped sandbox", e.Sh(ctx, sb, "true").Err, providers.KindUnavailable, providers.KindNotFound)
	if n := len(e.sandboxes(ctx)); n != 1 {
		e.Errorf("%d sandboxes are listed while one is stopped", n)
	}
	again, err := stopper.Start(ctx, sb.ID())
	if err != nil {
		e.Fatalf("start: %v", err)
	}
	e.Want(ctx, again, "cat /srv/file", "kept\n")
	e.wantMarks(ctx, again, 1, 0)
}

// context makes a build context with this Dockerfile after FROM.
func (e *Env) buildContext(dockerfile string) (dir string, done func()) {
	dir, err := os.MkdirTemp("", "providertest-")
	if err != nil {
		e.Fatalf("build context: %v", err)
	}
	files := map[string]string{
		"Dockerfile": "FROM " + e.Harness.Spec().Source.Image + "\n" + dockerfile,
		"data.txt":   "from the context " + e.nonce + "\n",
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			e.Fatalf("build context: %v", err)
		}
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			e.Errorf("remove build context: %v", err)
		}
	}
}

func buildRuns(ctx context.Context, e *Env) {
	builder := optional[providers.ImageBuilder](e)
	dir, done := e.buildContext("WORKDIR /built\nENV OF_IMAGE=\"set in image\"\nCOPY data.txt sub/\nRUN echo ran > ran.txt\n")
	defer done()
	img, err := builder.BuildImage(ctx, providers.Build{ContextDir: dir, Tag: "providertest-" + e.Spec().Name})
	if err != nil {
		e.Fatalf("build: %v", err)
	}
	if got, err := builder.InspectImage(ctx, img.ID); err != nil || got.ID != img.ID {
		e.Errorf("inspect %s: %+v, %v", img.ID, got, err)
	}
	sb := e.Create(ctx, func(s *providers.Spec) { s.Source = providers.Source{Image: img.ID} })
	e.Want(ctx, sb, `pwd; cat ran.txt sub/data.txt; echo "$OF_IMAGE"`, "/built\nran\nfrom the context "+e.nonce+"\nset in image\n")
	if err := sb.Destroy(ctx); err != nil {
		e.Errorf("destroy: %v", err)
	}
	for range 2 {
		if err := builder.RemoveImage(ctx, img.ID); err != nil {
			e.Errorf("remove image: %v", err)
		}
	}
	_, err = builder.InspectImage(ctx, img.ID)
	e.WantKind("inspect after remove", err, providers.KindNotFound)
}

func buildFails(ctx context.Context, e *Env) {
	dir, done := e.buildContext("RUN echo the reason is $((6*7)); exit 9\n")
	defer done()
	_, err := optional[providers.ImageBuilder](e).BuildImage(ctx, providers.Build{ContextDir: dir, Tag: "providertest-" + e.Spec().Name})
	e.WantKind("a build that fails", err, providers.KindInvalid)
	if err != nil && !strings.Contains(err.Error(), "the reason is 42") {
		e.Errorf("the error does not carry the log: %v", err)
	}
}

func buildUnknown(ctx context.Context, e *Env) {
	ref := e.Harness.Sources.Unknown.Image
	builder := optional[providers.ImageBuilder](e)
	_, err := builder.PullImage(ctx, ref, nil)
	e.WantKind("pull of an unknown image", err, providers.KindNotFound)
	_, err = builder.InspectImage(ctx, ref)
	e.WantKind("inspect of an unknown image", err, providers.KindNotFound)
}
