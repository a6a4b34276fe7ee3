package packages

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSettingsOfRegistriesClients(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if got := ClientSettings(t.Context()); got != nil {
		t.Errorf("without clients: %v", got)
	}
	for name, says := range map[string]string{
		"npm":     `{"registry": "https://mirror.example/npm/", "cafile": null, "fund": true}`,
		"python3": `:env:.index-url='https://variable.example'` + "\n" + `global.index-url='https://mirror.example/simple'` + "\n" + `install.extra-index-url='\nhttps://a\nhttps://b'` + "\n" + `global.cert='/etc/own.pem'` + "\n" + `global.timeout='60'`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n/bin/cat <<'E'\n"+says+"\nE\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"npm_config_registry=https://mirror.example/npm/", "PIP_INDEX_URL=https://mirror.example/simple", "PIP_EXTRA_INDEX_URL=https://a https://b", "PIP_CERT=/etc/own.pem"}
	if got := ClientSettings(t.Context()); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
