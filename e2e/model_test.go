package e2e

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// model starts the mock model API of a scenario, which ends with it.
func model(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: model ARG…")
	}
	cmd := exec.Command(filepath.Join(bin, "harbor-sim"), append([]string{"model"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Setenv("MODEL_URL", strings.TrimSpace(strings.TrimPrefix(line, "listening ")))
}
