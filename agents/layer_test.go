package agents

import (
	"bytes"
	"testing"

	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

func layerOf(t *testing.T, name string, kw trials.Object[any]) *Layer {
	t.Helper()
	l, err := LayerOf(trials.AgentConfig{Name: &name, Kwargs: kw})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLayerIsNamedByWhatItInstalls: whatever changes the installation changes the
// digest, and nothing else does.
func TestLayerIsNamedByWhatItInstalls(t *testing.T) {
	t.Parallel()
	first := layerOf(t, "codex", trials.Object[any]{"install": "inside"})
	if again := layerOf(t, "codex", trials.Object[any]{"install": "inside", "version": first.Version}); again.Digest != first.Digest {
		t.Error("the same installation has two digests")
	}
	if other := layerOf(t, "codex", trials.Object[any]{"install": "inside", "version": "0.0.1"}); other.Digest == first.Digest || other.Version != "0.0.1" {
		t.Errorf("another version: %+v", other)
	}
	if other := layerOf(t, "pi", trials.Object[any]{"install": "inside"}); other.Digest == first.Digest {
		t.Error("two agents have one digest")
	}
	for _, name := range []string{"codex", "nop", "oracle", "command"} {
		if l := layerOf(t, name, nil); l != nil {
			t.Errorf("%s without install=inside has a layer: %+v", name, l)
		}
	}
	for _, bad := range []trials.Object[any]{{"install": "inside", "version": "../x"}, {"install": "somewhere"}} {
		name := "codex"
		if l, err := LayerOf(trials.AgentConfig{Name: &name, Kwargs: bad}); err == nil {
			t.Errorf("%v: %+v", bad, l)
		}
	}
}

// TestLayerFailureIsTheBuilds: one failed installation is that of many trials.
func TestLayerFailureIsTheBuilds(t *testing.T) {
	t.Parallel()
	l, box := layerOf(t, "codex", trials.Object[any]{"install": "inside"}), &recorder{fails: "npm pack", says: "no\n"}
	var log bytes.Buffer
	if err := l.Install(t.Context(), box, &log, "/logs/x.log"); !providers.Is(err, providers.KindInvalid) || log.String() != "no\n" {
		t.Errorf("%v, log %q", err, &log)
	}
	if err := l.Install(t.Context(), &recorder{}, &log, ""); err != nil {
		t.Error(err)
	}
}

// TestInstalledAgentInstallsNothing: neither is a network asked for.
func TestInstalledAgentInstallsNothing(t *testing.T) {
	t.Parallel()
	task := &tasks.Task{}
	task.Config.Environment.Network.Mode = tasks.NetworkNone
	box := &recorder{}
	err := insideAgent(t, "mini-swe-agent").Setup(t.Context(), &Workplace{Sandbox: box, Task: task, Log: &memory{}, Installed: true})
	for _, c := range box.ran {
		if c.User == "root" {
			t.Errorf("ran %v", c.Args)
		}
	}
	if err != nil {
		t.Error(err)
	}
}
