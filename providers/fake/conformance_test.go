package fake_test

import (
	"errors"
	"net"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/providers/providertest"
)

// harness is what the suite must know about a world of fakes.
func harness(t *testing.T, w *fake.World) providertest.Harness {
	t.Helper()
	entrypoint := func(script string) fake.Image {
		return fake.Image{Entrypoint: []string{"/entrypoint"}, Files: map[string]string{"/entrypoint": script}}
	}
	err := errors.Join(
		w.SetImage("fake:service", entrypoint(providertest.ServiceEntrypoint)),
		w.SetImage("fake:failing", entrypoint(providertest.FailingEntrypoint)),
		w.SetImage("fake:late", entrypoint(providertest.LateEntrypoint)),
		w.SetImage("fake:unknown", fake.Image{Missing: true}),
	)
	if err != nil {
		t.Fatal(err)
	}
	w.Serve("198.51.100.7:80", func(c net.Conn) { _ = c.Close() })
	return providertest.Harness{
		Open: func() (providers.Provider, error) { return fake.New(fake.Options{World: w}), nil },
		Spec: func() providers.Spec { return providers.Spec{Source: providers.Source{Image: "fake:debian"}} },
		Sources: providertest.Sources{
			Service: providers.Source{Image: "fake:service"}, Failing: providers.Source{Image: "fake:failing"},
			Late: providers.Source{Image: "fake:late"}, Unknown: providers.Source{Image: "fake:unknown"},
		},
		HostAddrs: []string{"198.51.100.7:80"},
		ExemptRealProcesses: []string{
			"cancel/kills-stopped", "exec/default-signals", "exec/not-spared-by-the-oom-killer", "exec/three-descriptors",
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	providertest.Run(t, harness(t, fake.NewWorld()))
}
