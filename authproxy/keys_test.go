package authproxy

import (
	"net/http"
	"strings"
	"testing"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// refusedOnce is a rig whose two keys were refused and rest.
func refusedOnce(t *testing.T, with mockllm.Step) *rig {
	t.Helper()
	r := start(t, twoKeys)
	r.mock.Script(with, with)
	if a := r.post(messages, ask); a.header.Get(wire.Marker) != "upstream_credential" {
		t.Fatalf("%+v", a)
	}
	if a := r.post(messages, ask); a.header.Get(wire.Marker) != "upstream_credential" || len(r.mock.Requests()) != 2 {
		t.Fatalf("resting keys are asked: %+v", a)
	}
	return r
}

func twoKeys(c *Config, o *Options) {
	with(func(u *Upstream) { u.Keys = []KeyRef{"env:KEY", "env:KEY2"} })(c, o)
}

func TestProbeAsksWithKeysThatRestAndWakesThem(t *testing.T) {
	t.Parallel()
	r := refusedOnce(t, mockllm.Step{Status: 401})
	agents := r.token
	r.token, _ = r.mint(GrantSpec{Phase: "check", Probe: true})
	r.mock.Script(mockllm.Step{Status: 401}) // one of them is good again
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if n := len(r.mock.Requests()); n != 4 {
		t.Errorf("%d requests, want one more for each key", n)
	}
	r.token = agents
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("the key was not woken: %+v", a)
	}
}

func TestProbeAsksOnceWithEachKey(t *testing.T) {
	t.Parallel()
	r := refusedOnce(t, mockllm.Step{Status: 401})
	r.token, _ = r.mint(GrantSpec{Phase: "check", Probe: true})
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Status: 401} })
	if a := r.post(messages, ask); a.header.Get(wire.Marker) != "upstream_credential" {
		t.Errorf("%+v", a)
	}
	if n := len(r.mock.Requests()); n != 4 {
		t.Errorf("%d requests, want one more for each key", n)
	}
}

func TestReloadWakesKeysThatWereRefused(t *testing.T) {
	t.Parallel()
	r := refusedOnce(t, mockllm.Step{Status: 401})
	if err := r.proxy.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("%+v", a)
	}
}

func TestQuotaThatIsUsedUpIsSaidToBe(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]mockllm.Step{
		"402":   {Status: 402},
		"quota": {Status: 429, Body: []byte(`{"error":{"type":"insufficient_quota"}}`)},
		"400":   {Status: 400, Body: []byte(`{"error":{"message":"Your credit balance is too low"}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := refusedOnce(t, step)
			a := r.post(messages, ask)
			g, _ := r.proxy.Grant(r.grant)
			const want = "no quota or credit is left"
			if !strings.Contains(a.body, want) || !strings.Contains(g.Totals.Last.Why, want) {
				t.Errorf("%s, %+v", a.body, g.Totals.Last)
			}
			for _, u := range r.proxy.Status().Upstreams {
				if k := u.Keys[0]; u.Name == "anthropic" && (!k.Spent || k.Status != step.Status) {
					t.Errorf("%+v", k)
				}
			}
		})
	}
	r := refusedOnce(t, mockllm.Step{Status: http.StatusUnauthorized})
	if a := r.post(messages, ask); !strings.Contains(a.body, "refuses the keys") {
		t.Errorf("%+v", a)
	}
}
