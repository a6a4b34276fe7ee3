package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake/plane"
)

// ask runs harbor-sim ask.
func ask(t *testing.T, address, what string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"ask", address, what}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}

func TestProviderIsSharedByProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "sim.yaml")
	if err := os.WriteFile(config, []byte("limits: {sandboxes: 3}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{"unix:" + filepath.Join(dir, "s"), "127.0.0.1:0"} {
		address, stop := startAs(t, "provider", "--config", config, "--listen", listen)
		c, err := plane.Dial(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Create(t.Context(), plane.Sandbox{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		var got plane.Counters
		if err := json.Unmarshal([]byte(ask(t, address, "counters")), &got); err != nil || got.InUse.Sandboxes != 1 || got.Limits.Sandboxes != 3 {
			t.Errorf("%+v, %v", got, err)
		}
		ask(t, address, "down")
		if _, err := c.Check(t.Context()); !providers.Is(err, providers.KindUnavailable) {
			t.Errorf("while it is down: %v", err)
		}
		ask(t, address, "up")
		if _, err := c.Check(t.Context()); err != nil {
			t.Error(err)
		}
		_ = c.Close()
		stop()
	}
}

func TestMistakesOfProvider(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("odd: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"odd is no key":     {"provider", "--config", wrong},
		"no such file":      {"provider", "--config", filepath.Join(dir, "none")},
		"usage: harbor-sim": {"ask", "unix:/x"},
		"is not known":      {"ask", "unix:/x", "odd"},
		"is neither":        {"ask", "x", "counters"},
		"answers at":        {"ask", "unix:" + filepath.Join(dir, "none"), "counters"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 1 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit code %d: %s", args, code, errs.String())
		}
	}
}
