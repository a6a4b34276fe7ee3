package runner

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/snapshots"
	"harborgate/tasks"
	"harborgate/trials"
)

// linkedTask is a task whose environment is a link to another of its directories.
func linkedTask(t *testing.T, dockerfile string) *tasks.Task {
	t.Helper()
	task := writeTask(t, map[string]string{"real/Dockerfile": dockerfile, "real/.env": "TOKEN=" + canary + "\n"})
	if err := os.RemoveAll(task.EnvironmentDir()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", task.EnvironmentDir()); err != nil {
		t.Fatal(err)
	}
	return task
}

func edit(t *testing.T, task *tasks.Task, dockerfile string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(task.EnvironmentDir(), "Dockerfile"), []byte(dockerfile), 0o644); err != nil {
		t.Fatal(err)
	}
}

// environment asks for a task's image as a new process does.
func (b *bench) environment(task *tasks.Task) (*Images, snapshots.Request) {
	b.t.Helper()
	im := b.images()
	req, err := im.Environment(task, trials.NewTrialConfig(trials.TaskConfig{}), 1)
	if err != nil {
		b.t.Fatal(err)
	}
	return im, req
}

func TestContextThatIsALinkHasAKeyOfItsContent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		one, two := linkedTask(t, "FROM debian\nRUN echo one > /x\n"), linkedTask(t, "FROM debian\nRUN echo two > /x\n")
		_, first := b.environment(one)
		if _, other := b.environment(two); first.Key == other.Key {
			t.Error("another Dockerfile has the same key")
		}
		edit(t, one, "FROM debian\nRUN echo three > /x\n")
		im, edited := b.environment(one)
		if first.Key == edited.Key {
			t.Error("an edit does not change the key")
		}
		var said []string
		im.OnNote = func(_, words string) { said = append(said, words) }
		hold, err := im.Get(t.Context(), edited)
		if err != nil {
			t.Fatal(err)
		}
		hold.Release()
		if len(said) != 1 || !strings.Contains(said[0], "environment/.env holds a known secret") {
			t.Errorf("said %q", said)
		}
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		if err := packDir(w, one.EnvironmentDir(), nil, nil); err != nil || !strings.Contains(packed.String(), canary) {
			t.Errorf("nothing of it is sent: %v", err)
		}
	})
}

// What is edited between its digest and its build is not kept under the wrong key, and who
// asks again gets what is there now.
func TestContextThatChangesBeforeItsBuildIsBuiltAsItIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		task := writeTask(t, map[string]string{"environment/Dockerfile": "FROM debian\nRUN echo one > /x\n"})
		im, planned := b.environment(task)
		edit(t, task, "FROM debian\nRUN echo two > /x\n")
		_, err := im.Get(t.Context(), planned)
		if !providers.Is(err, providers.KindUnavailable) || !strings.Contains(err.Error(), "was changed before its image was built") {
			t.Errorf("the plan's: %v", err)
		}
		now, err := im.Environment(task, trials.NewTrialConfig(trials.TaskConfig{}), 1)
		if err != nil || now.Key == planned.Key {
			t.Fatalf("the same key %t, %v", now.Key == planned.Key, err)
		}
		built := func(req snapshots.Request) string {
			t.Helper()
			hold, err := im.Get(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			defer hold.Release()
			sb, err := b.p.Create(t.Context(), providers.Spec{Name: providers.Name(t.Name(), string(req.Key)), Source: providers.Source{Image: hold.Image.ID}, Idle: true})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if _, err := sb.Exec(t.Context(), providers.Command{Args: []string{"cat", "/x"}, Stdout: &out}); err != nil {
				t.Error(err)
			}
			if err := sb.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			return out.String()
		}
		if got := built(now); got != "two\n" {
			t.Errorf("what is there now is built as %q", got)
		}
		edit(t, task, "FROM debian\nRUN echo one > /x\n")
		if got := built(planned); got != "one\n" {
			t.Errorf("what was planned is built as %q", got)
		}
	})
}
