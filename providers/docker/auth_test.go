package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/cli/cli/config/types"
)

// credentialHelper is a program of this host that keeps logins.
func credentialHelper(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	// A child that another test starts meanwhile would hold the file open for writing,
	// and then nobody can run it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCredentialHelper(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   types.AuthConfig
		err    string
	}{
		"login":    {`[ "$1" = get ] && [ "$(cat)" = reg.example ] && echo '{"Username":"me","Secret":"s"}'`, types.AuthConfig{ServerAddress: "reg.example", Username: "me", Password: "s"}, ""},
		"token":    {`echo '{"Username":"<token>","Secret":"s"}'`, types.AuthConfig{ServerAddress: "reg.example", IdentityToken: "s"}, ""},
		"none":     {"echo credentials not found in native keychain; exit 1", types.AuthConfig{}, ""},
		"broken":   {"echo the keychain is locked; exit 1", types.AuthConfig{}, "the keychain is locked"},
		"no JSON":  {"echo secret words", types.AuthConfig{}, "no JSON"},
		"survivor": {"sleep 5 & echo '{}'", types.AuthConfig{ServerAddress: "reg.example"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := askHelper(t.Context(), credentialHelper(t, c.script), "reg.example")
			if c.err == "" && (err != nil || got != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%+v %v, want %+v %q", got, err, c.want, c.err)
			}
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%v shows the answer", err)
			}
		})
	}
}

// TestB018HelperThatHangsDiesWithItsChildren: not the direct child alone.
func TestB018HelperThatHangsDiesWithItsChildren(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	program := credentialHelper(t, "sleep 600 & echo $! $$ > "+pids+".new; mv "+pids+".new "+pids+"; sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(pids); err == nil {
				cancel()
				return
			}
		}
	}()
	if _, err := askHelper(ctx, program, "reg.example"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	tick, late := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for _, pid := range strings.Fields(string(b)) {
		for runs(pid) {
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("%s still runs", pid)
			}
		}
	}
}

// runs is false of a zombie, which only waits for its parent.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
