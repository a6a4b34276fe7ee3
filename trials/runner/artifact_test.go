package runner

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// without is a provider whose images lack some programs.
type without struct {
	providers.Provider
	programs []string
}

func (w *without) Unwrap() providers.Provider { return w.Provider }

func (w *without) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	sb, err := w.Provider.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	return &bareSandbox{sb, w.programs}, nil
}

type bareSandbox struct {
	providers.Sandbox
	missing []string
}

func (s *bareSandbox) Exec(ctx context.Context, c providers.Command) (providers.ExitStatus, error) {
	if slices.Contains(s.missing, c.Args[0]) {
		return providers.ExitStatus{Code: 127}, nil
	}
	return s.Sandbox.Exec(ctx, c)
}

// lacking runs the tries of a rig in images without some programs.
func (r *rig) lacking(programs ...string) *rig {
	r.options = func(o *Options) { o.Provider = &without{o.Provider, programs} }
	return r
}

// passOn is a task with a separate verifier whose only artifact is /app/o.
func passOn(solve, test string) map[string]string {
	files := separateTask("cd /app\n" + test + "\necho 1 > /logs/verifier/reward.txt\n")
	files["task.toml"] = strings.Replace(files["task.toml"], `"/app/out.txt", "/app/d"`, `"/app/o"`, 1)
	files["solution/solve.sh"] = "#!/bin/sh\ncd /app\n" + solve + "\n"
	return files
}

const complain = ` || { echo 0 > /logs/verifier/reward.txt; exit; }`

// What an agent leaves at the declared place either reaches the tests as it was,
// or the verdict says that it did not.
func TestArtifactsReachTheTestsOrTheVerdictSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		solve, test    string
		lacks          []string
		reward, status string   // status is the manifest's, with the type
		said           []string // in the suspicion; none is no suspicion
	}{
		"link inside": {
			solve: "mkdir -p o/d; echo x > o/ok; ln -s ok o/rel; ln -s ../ok o/d/up; ln -s /app/o/ok o/abs; ln -s d o/dir; ln -s nowhere o/dangling",
			test: `[ "$(readlink o/rel)$(readlink o/d/up)$(readlink o/abs)$(readlink o/dir)$(readlink o/dangling)" = ok../ok/app/o/okdnowhere ] &&
				[ "$(cat o/rel o/d/up o/abs o/dir/up | tr -d '\n')" = xxxx ]` + complain,
			reward: "1.0", status: "directory ok",
		},
		"link outside": {
			solve: "mkdir o; echo x > o/ok; ln -s ../secret o/rel; ln -s /app/other o/abs; ln -s /app/o/../x o/sly; ln -s a/../../x o/deep",
			test:  `[ "$(ls o)" = ok ]` + complain, reward: "1.0", status: "directory ok",
			said: []string{`artifacts/app/o/abs: it is a symbolic link to "/app/other"`, "and 1 more"},
		},
		"too special": {
			solve: "mkdir o; echo x > o/ok; mkfifo o/pipe", test: `[ "$(cat o/ok)" = y ]` + complain,
			reward: "0.0", status: "directory ok", said: []string{"artifacts/app/o/pipe: it is a pipe"},
		},
		"source links to a directory": {
			solve: "mkdir real; echo x > real/a; ln -s real o", test: `[ "$(cat o/a)" = x ]` + complain,
			reward: "1.0", status: "directory ok",
		},
		"source links to a file": {
			solve: "mkdir deep; echo x > deep/a; ln -s a deep/b; ln -s deep/b o", test: `[ "$(cat o)" = x ]` + complain,
			reward: "1.0", status: "file ok",
		},
		"source links to a file, no readlink": {
			solve: "echo x > a; ln -s a o", test: `[ -e o ]` + complain, lacks: []string{"readlink"},
			reward: "0.0", status: "file failed", said: []string{`artifacts/app/o: it is a symbolic link to "a"`},
		},
		"source links to nothing": {
			solve: "ln -s a o", test: `[ -e o ]` + complain,
			reward: "0.0", status: "file failed", said: []string{`artifacts/app/o: it is a symbolic link to "a"`},
		},
		"source links to itself": {
			solve: "ln -s o o", test: `[ -e o ]` + complain,
			reward: "0.0", status: "file failed", said: []string{`artifacts/app/o: it is a symbolic link to "o"`},
		},
		"source is a pipe": {
			solve: "mkfifo o", test: `[ -e o ]` + complain,
			reward: "0.0", status: "file failed", said: []string{"artifacts/app/o: it is a pipe"},
		},
		"source is missing": {solve: "true", test: `[ -e o ]` + complain, reward: "0.0", status: "file failed"},
		"directory, no test": {
			solve: "mkdir o; echo x > o/o", test: `[ "$(cat o/o)" = x ]` + complain, lacks: []string{"test"},
			reward: "1.0", status: "directory ok",
		},
		"file, no test": {
			solve: "echo x > o", test: `[ "$(cat o)" = x ]` + complain, lacks: []string{"test"},
			reward: "1.0", status: "file ok",
		},
		"empty directory": {solve: "mkdir o", test: `[ -d o ]` + complain, reward: "1.0", status: "directory ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, passOn(c.solve, c.test)).lacking(c.lacks...)
			res := r.run(t.Context())
			want(t, res, c.reward, "")
			if e := r.manifest()["/app/o"]; e.Type+" "+e.Status != c.status {
				t.Errorf("manifest says %s %s, want %s", e.Type, e.Status, c.status)
			}
			var codes []string
			if c.said != nil {
				codes = []string{"artifact_incomplete"}
			}
			if diff := cmp.Diff(codes, suspicions(res)); diff != "" && len(codes)+len(suspicions(res)) > 0 {
				t.Fatalf("suspicions (-want +got):\n%s", diff)
			}
			for _, s := range c.said {
				if got := res.Harborgate.Suspect[0].Message; !strings.Contains(got, s) {
					t.Errorf("suspicion %q does not say %q", got, s)
				}
			}
			if got := strings.Contains(notes(res), "skipped: "); got != (c.said != nil) {
				t.Errorf("notes:\n%s", notes(res))
			}
		})
	}
}

// Verified where the agent worked, the tests see everything.
func TestSkippedArtifactsDoNotMatterInTheAgentsSandbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).command("echo hi > /app/out.txt; mkfifo /logs/artifacts/pipe; ln -s pipe /logs/artifacts/link")
	res := r.run(t.Context())
	want(t, res, "1.0", "")
	if got := suspicions(res); len(got) > 0 {
		t.Errorf("suspicions %v", got)
	}
	if !strings.Contains(notes(res), "artifacts/logs/artifacts/link was left out") {
		t.Errorf("notes:\n%s", notes(res))
	}
}

func TestTestsThatRemoveTheirLogs(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/logs", "/logs/verifier"} {
		r := newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nrm -rf " + dir + "\n"})
		res := r.run(t.Context())
		want(t, res, "null", trials.ExcRewardMissing)
		wantFailure(t, res, trials.PhaseVerifier, trials.CauseRewardMissing, trials.BlameTask)
		if got := res.ExceptionInfo.Message; !strings.Contains(got, "the tests removed /logs/verifier") {
			t.Errorf("message %q", got)
		}
	}
}

// A sandbox that is gone has no such directory either, and is no fault of the tests.
func TestMissingLogsOfASandboxOutOfReach(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.events.then = func(e trials.Event) {
		if word(e) == "phase-start verifier" {
			r.world.Inject(
				fake.Fault{Op: fake.OpDownload, Match: "/logs/verifier", Effect: fake.Refuse, Kind: providers.KindNotFound},
				fake.Fault{Op: fake.OpUpload, Effect: fake.Refuse, Kind: providers.KindNotFound},
			)
		}
	}
	res := r.run(t.Context())
	want(t, res, "null", trials.ExcDownloadVerifier)
	wantFailure(t, res, trials.PhaseVerifier, trials.CauseDownload, trials.BlameInfrastructure)
}

func TestStaysInside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source, name, target string
		want                 bool
	}{
		{"/app/o", "l", "a", true}, {"/app/o", "l", ".", true}, {"/app/o", "l", "..", false}, {"/app/o", "d/l", "..", true},
		{"/app/o", "d/l", "../../o/a", false}, {"/app/o", "d/l", "x/../../a", true}, {"/app/o", "l", "d/../../a", false},
		{"/app/o", "l", "/app/o", true}, {"/app/o", "l", "/app/o/a", true}, {"/app/o", "l", "/app/other", false},
		{"/app/o", "l", "/app/o/../x", false}, {"/app/o", "l", "/", false}, {"/app/o", "l", "//app//o//a", true}, {"/", "l", "/etc", true}, {"/", "l", "/", true},
	} {
		if got := staysInside(c.source, trials.Link{Name: c.name, Target: c.target}); got != c.want {
			t.Errorf("%s in %s to %s: %v", c.name, c.source, c.target, got)
		}
	}
}
