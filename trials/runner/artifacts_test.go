package runner

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

func artifact(source, destination string, exclude ...string) trials.ArtifactConfig {
	return trials.ArtifactConfig{Source: source, Destination: optional(destination), Exclude: exclude}
}

// tree lists the files below a directory of the trial.
func (r *rig) tree(dir string) []string {
	root := filepath.Join(r.dir, filepath.FromSlash(dir))
	out := []string{}
	_ = filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(root, p)
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	slices.Sort(out)
	return out
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).command(`cd /app && echo hi > out.txt && mkdir -p d/sub d/.cache d/empty && echo 1 > d/a.txt &&
		echo 2 > d/sub/b.log && echo 3 > d/sub/c.txt && echo 4 > d/.cache/x && ln -s /etc/passwd d/link && mkfifo d/pipe &&
		echo 5 > /logs/artifacts/own.txt && echo 6 > "/app/a b'c.txt"`)
	r.try.Config.Artifacts = trials.List[trials.ArtifactConfig]{
		artifact("/app/out.txt", ""),
		artifact("/app/d", "data", "*.log", ".cache"),
		artifact("out.txt", "relative/copy.txt"),
		artifact("/app/missing", ""),
		artifact("/app/d/a.txt", "data/again.txt"),
		artifact("/app/d/sub", "relative"),
		artifact("/app/a b'c.txt", ""),
	}
	res := r.run(t.Context())
	want(t, res, "1.0", "")

	got := map[string]string{}
	for source, e := range r.manifest() {
		got[source] = e.Type + " " + e.Status + " " + e.Destination
	}
	wantManifest := map[string]string{
		"/logs/artifacts": "directory ok artifacts/logs/artifacts",
		"/app/out.txt":    "file ok artifacts/app/out.txt",
		"/app/d":          "directory ok artifacts/data",
		"out.txt":         "file ok artifacts/relative/copy.txt",
		"/app/missing":    "file failed artifacts/app/missing",
		"/app/d/a.txt":    "file skipped artifacts/data/again.txt",
		"/app/d/sub":      "file skipped artifacts/relative",
		"/app/a b'c.txt":  "file ok artifacts/app/a b'c.txt",
	}
	if diff := cmp.Diff(wantManifest, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	wantFiles := []string{
		"app/a b'c.txt", "app/out.txt", "data/a.txt", "data/sub/c.txt",
		"logs/artifacts/own.txt", "manifest.json", "relative/copy.txt",
	}
	if diff := cmp.Diff(wantFiles, r.tree("artifacts")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, said := range []string{
		"artifacts/data/link was left out: it is a symbolic link", "artifacts/data/pipe was left out: it is a pipe",
		"artifact_skipped: artifact /app/d/a.txt",
	} {
		if !strings.Contains(notes(res), said) {
			t.Errorf("notes do not say %q:\n%s", said, notes(res))
		}
	}
}

func TestExplicitArtifactsDirectoryReplacesTheImplicitOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).command("echo 1 > /logs/artifacts/a; echo 2 > /logs/artifacts/b.tmp")
	r.try.Config.Artifacts = trials.List[trials.ArtifactConfig]{artifact("/logs/artifacts/", "mine", "*.tmp")}
	r.run(t.Context())
	if diff := cmp.Diff([]string{"manifest.json", "mine/a"}, r.tree("artifacts")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestExcluding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		patterns, name string
		keep           bool
	}{
		{"*.log", "a.log", false}, {"*.log", "d/a.log", false}, {"*.log", "a.txt", true},
		{"cache", "cache/x/y", false}, {"cache/", "cache/x", false}, {"./a", "a", false},
		{"d/*.txt", "d/a.txt", false}, {"d/*.txt", "e/a.txt", true}, {"[", "a", true}, {"x", "ax", true},
	} {
		if got := excluding([]string{c.patterns})(c.name); got != c.keep {
			t.Errorf("%s with %s: keep %v, want %v", c.name, c.patterns, got, c.keep)
		}
	}
	if excluding(nil) != nil {
		t.Error("no patterns need no filter")
	}
}

func TestWantedLogs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		include, exclude string
		name             string
		want             bool
	}{
		{"*.json", "", "a.json", true}, {"*.json", "", "d/a.json", true}, {"*.json", "", "a.txt", false},
		{"", "*.txt", "a.txt", false}, {"", "*.txt", "a.json", true},
		{"*.json", "secret.json", "secret.json", false}, {"*.json", "secret.json", "d/secret.json", false},
	} {
		list := func(s string) []string {
			if s == "" {
				return nil
			}
			return []string{s}
		}
		if got := wanted(list(c.include), list(c.exclude))(c.name); got != c.want {
			t.Errorf("%s with +%s -%s: %v", c.name, c.include, c.exclude, got)
		}
	}
}

// The reward is read whatever the log filters say.
func TestLogFiltersSpareTheReward(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\ncd /logs/verifier; echo 1 > reward.txt; echo a > a.log; echo b > b.json\n"}).
		command("echo x > /logs/agent/x.log; echo y > /logs/agent/y.json; echo said")
	r.try.Config.Verifier.IncludeLogs = trials.List[string]{"*.json"}
	r.try.Config.Agent.ExcludeLogs = trials.List[string]{"*.log"}
	want(t, r.run(t.Context()), "1.0", "")
	if diff := cmp.Diff([]string{"b.json", "reward.txt", "test-stdout.txt"}, r.tree("verifier")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"command.txt", "y.json"}, r.tree("agent")); diff != "" {
		t.Error(diff)
	}
}

// What the sandbox says about files that the host wrote does not count.
func TestAgentCannotRewriteWhatTheHostSaw(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).command("echo truth; echo lie > /logs/agent/command.txt")
	r.run(t.Context())
	if got := r.file("agent/command.txt"); got != "truth\n" {
		t.Errorf("the log says %q", got)
	}
	r = newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\necho truth\necho lie > /logs/verifier/test-stdout.txt\necho 0 > /logs/verifier/reward.txt\n"})
	r.run(t.Context())
	if got := r.file("verifier/test-stdout.txt"); got != "truth\n" {
		t.Errorf("the log says %q", got)
	}
}

func TestCollectHooks(t *testing.T) {
	t.Parallel()
	toml := helloToml + "[[verifier.collect]]\ncommand = \"cp /app/out.txt /logs/artifacts/hook.txt\"\n[[verifier.collect]]\ncommand = \"echo broken >&2; exit 9\"\n"
	r := newRig(t, map[string]string{"task.toml": toml})
	res := r.run(t.Context())
	want(t, res, "1.0", "")
	if got := r.file("artifacts/logs/artifacts/hook.txt"); got != "hi\n" {
		t.Errorf("the hook's file is %q", got)
	}
	if !strings.Contains(notes(res), "exit code 9") || !strings.Contains(notes(res), "broken") {
		t.Errorf("notes: %s", notes(res))
	}
}

// separateTask has a verifier that sees artifacts alone.
func separateTask(test string) map[string]string {
	return map[string]string{
		"task.toml": "artifacts = [\"/app/out.txt\", \"/app/d\"]\n" +
			strings.Replace(helloToml, "[verifier]\n", "[verifier]\nenvironment_mode = \"separate\"\n", 1),
		"solution/solve.sh": "#!/bin/sh\ncd /app; echo hi > out.txt; mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/.harborignore; echo 3 > scratch; " +
			"echo 4 > /logs/artifacts/own; echo 5 > /logs/agent/note; mkdir -p /tests; echo 6 > /tests/planted\n",
		"tests/test.sh": "#!/bin/sh\n" + test,
	}
}

const checkSeparate = `fail() { echo "$1"; echo 0 > /logs/verifier/reward.txt; exit; }
[ "$(cat /app/out.txt)" = hi ] || fail "no out.txt"
[ "$(cat /app/d/e/f)" = 1 ] || fail "no directory"
[ "$(cat /app/d/.harborignore)" = 2 ] || fail "a file of the directory is missing"
[ "$(cat /logs/artifacts/own)" = 4 ] || fail "no own artifact"
[ ! -e /app/scratch ] || fail "scratch passed"
[ ! -e /logs/agent/note ] || fail "agent logs passed"
[ ! -e /tests/planted ] || fail "planted tests passed"
echo 1 > /logs/verifier/reward.txt
`

func TestSeparateVerifierGetsArtifactsAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, separateTask(checkSeparate))
	var atCreate []int
	r.options = func(o *Options) {
		o.Provider = &watched{Provider: o.Provider, create: func(providers.Spec) { atCreate = append(atCreate, r.world.Left()) }}
	}
	res := r.run(t.Context())
	want(t, res, "1.0", "")
	if got := r.file("verifier/test-stdout.txt"); got != "" {
		t.Errorf("the tests say %q", got)
	}
	if diff := cmp.Diff([]int{0, 0}, atCreate); diff != "" {
		t.Errorf("sandboxes at each create (-want +got):\n%s", diff)
	}
	if mode := res.VerifierEnvironmentMode; mode == nil || *mode != "separate" {
		t.Errorf("mode %v", mode)
	}
	if len(r.removed) != 2 {
		t.Errorf("removals: %q", r.removed)
	}
}

// watched tells when a sandbox is made.
type watched struct {
	providers.Provider
	create func(providers.Spec)
}

func (w *watched) Unwrap() providers.Provider { return w.Provider }

func (w *watched) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	w.create(s)
	return w.Provider.Create(ctx, s)
}

func TestSeparateVerifierFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault     fake.Fault
		exception string
		phase     trials.Phase
	}{
		"artifact lost":       {fake.Fault{Op: fake.OpDownload, Match: "/app/out.txt", Effect: fake.Refuse, Kind: providers.KindUnavailable}, trials.ExcArtifacts, trials.PhaseArtifacts},
		"artifact hangs":      {fake.Fault{Op: fake.OpDownload, Match: "/app/out.txt", Hang: true}, trials.ExcArtifacts, trials.PhaseArtifacts},
		"second fails":        {fake.Fault{Op: fake.OpCreate, Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable}, trials.ExcProvider, trials.PhaseEnvironmentSetup},
		"second hangs":        {fake.Fault{Op: fake.OpCreate, Nth: 2, Hang: true}, trials.ExcEnvironmentTimeout, trials.PhaseEnvironmentSetup},
		"artifact not return": {fake.Fault{Op: fake.OpUpload, Match: "/app/d", Effect: fake.Refuse, Kind: providers.KindUnavailable}, trials.ExcTransfer, trials.PhaseEnvironmentSetup},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, separateTask(checkSeparate))
				r.world.Inject(c.fault)
				res := r.run(t.Context())
				want(t, res, "null", c.exception)
				if f := res.Harborgate.Failure; f.Phase != c.phase {
					t.Errorf("failure %+v", f)
				}
			})
		})
	}
}
