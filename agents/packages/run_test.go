package packages

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// heldBy names the pipe that the client of a process holds which the test kills.
const heldBy = "npm_config_harbor_test_pipe"

func TestClientOfAKilledProcessIsKilled(t *testing.T) {
	t.Parallel()
	if pipe := os.Getenv(heldBy); pipe != "" {
		t.Fatal(runClient(t.Context(), "x", t.TempDir(), "sh", "-c", `exec >"$`+heldBy+`"; echo up; exec sleep 300`))
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), heldBy+"="+pipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	if line, err := r.ReadString('\n'); line != "up\n" {
		t.Fatal(line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	ended := make(chan error, 1)
	go func() {
		_, err := r.ReadByte()
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the client lives on")
	}
}

func TestFailedFetchSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"npm error code ETARGET\nnpm error notarget No matching version found for a@9.\nnpm error notarget In most cases\nnpm error A complete log of this run can be found in: /x": "the registry has no a@9: choose another --ak version",
		"npm error code E404\nnpm error 404 Not Found": "the registry has no a@9: choose another --ak version",
		"ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 0.1, 0.2)\nERROR: No matching distribution found for a==9": "the registry has no a@9: choose another --ak version",
		"ERROR: Could not find a version that satisfies the requirement a==9 (from versions: none)":                                                     "ERROR: Could not find a version that satisfies the requirement a==9 (from versions: none)",
		"npm error code SELF_SIGNED_CERT_IN_CHAIN": "NODE_EXTRA_CA_CERTS",
		"npm error code ECONNREFUSED":              "npm_config_registry",
		"npm error code E403":                      "refuses a@9",
		"npm error code ENOSPC":                    "XDG_CACHE_HOME",
		"npm error one\nnpm error two\nnpm error A complete log of this run can be found in: /x\n": "npm error two",
		"": "",
	} {
		if got := reason(out, "a@9"); !strings.Contains(got, want) || strings.Contains(got, "\n") || want == "" && got != "" {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
	err := runClient(t.Context(), "a@9", t.TempDir(), "sh", "-c", "exit 3")
	if err == nil || err.Error() != "sh: exit status 3" {
		t.Error(err)
	}
}
