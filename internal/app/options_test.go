package app

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"harborgate/configs"
	"harborgate/trials/runner"
)

// TestProviderOptionsAreThoseThatAreRead holds the list against the code that reads
// options: every one is accepted, and no other.
func TestProviderOptionsAreThoseThatAreRead(t *testing.T) {
	t.Parallel()
	for _, o := range trialOptions {
		if err := runner.CheckKwargs(map[string]any{o.Name: true}); err != nil {
			t.Errorf("--ek %s: %v", o.Name, err)
		}
	}
	err := runner.CheckKwargs(map[string]any{"nothing": true})
	var names []string
	for _, o := range trialOptions {
		names = append(names, o.Name)
	}
	if err == nil || !strings.Contains(err.Error(), strings.Join(names, ", ")) {
		t.Errorf("the runner knows others: %v", err)
	}
	if want, got := slices.Sorted(maps.Keys(drivers)), slices.Sorted(maps.Keys(providerOptions)); !slices.Equal(want, got) {
		t.Errorf("options of %q, drivers %q", got, want)
	}
	limits := map[string]bool{}
	for _, o := range structOptions(configs.Limits{}) {
		limits[o.Name] = true
		if limitDocs[o.Name].doc == "" {
			t.Errorf("limit %s has no words", o.Name)
		}
	}
	for name := range limitDocs {
		if !limits[name] {
			t.Errorf("there is no limit %s", name)
		}
	}
}

func TestProviderOptionsOfNames(t *testing.T) {
	t.Parallel()
	a := &App{Host: configs.Host{Providers: map[string]configs.Provider{"big": {Type: "docker"}}}}
	got, err := a.ProviderOptions("big")
	if err != nil || !slices.ContainsFunc(got, func(o Option) bool { return o.Where == "providers.big.options" && o.Name == "tls_dir" }) {
		t.Error(got, err)
	}
	for _, o := range got {
		if o.Doc == "" || o.Type == "" {
			t.Errorf("%+v", o)
		}
	}
	for _, name := range []string{"nothing", "modal"} {
		if _, err := a.ProviderOptions(name); err == nil {
			t.Errorf("%s has options", name)
		}
	}
}
