package docker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"

	"harborgate/providers"
)

// lateNews is an engine that learns after some looks that a container was killed
// for memory; zero is never.
type lateNews struct {
	engine
	looks, after int
	code         int
}

func (l *lateNews) ContainerInspect(context.Context, string) (container.InspectResponse, error) {
	l.looks++
	state := &container.State{Status: "exited", ExitCode: l.code, OOMKilled: l.after > 0 && l.looks >= l.after}
	return container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{State: state}}, nil
}

func TestMemoryDeathThatTheEngineLearnsOfLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine lateNews
		killed bool
		took   time.Duration
	}{
		"at once":        {lateNews{code: 137, after: 1}, true, 0},
		"late":           {lateNews{code: 137, after: 5}, true, 4 * oomPause},
		"something else": {lateNews{code: 137}, false, oomNews},
		"it exited":      {lateNews{code: 1}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &sandbox{p: &Provider{engine: &c.engine}, id: "c"}
				begun := time.Now()
				death, ok := providers.DeathOf(s.explain(t.Context(), errors.New("broken")))
				if !ok || death.OOMKilled != c.killed || time.Since(begun) != c.took {
					t.Errorf("%+v after %s", death, time.Since(begun))
				}
				begun = time.Now()
				if _, _ = providers.DeathOf(s.explain(t.Context(), errors.New("broken"))); time.Since(begun) != 0 {
					t.Errorf("asked again it waits again: %s", time.Since(begun))
				}
			})
		})
	}
}
