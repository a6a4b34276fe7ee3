package e2e

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// simulator is a command that starts a simulator of harbor-sim, which ends with the
// scenario. The variable is where it listens.
func simulator(name, variable string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("usage: %s ARG…", name)
		}
		cmd := exec.Command(filepath.Join(bin, "harbor-sim"), append([]string{name}, args...)...)
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
		ts.Setenv(variable, strings.TrimSpace(strings.TrimPrefix(line, "listening ")))
	}
}
