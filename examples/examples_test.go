// Package examples runs every example, and every command that the README and the
// examples' comments show, with the built programs on the engine.
package examples

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update rewrites what is shown in the README; `make golden` sets it.
const update = "HARBOR_UPDATE_GOLDEN"

// state is where harbor keeps its own, one for all tests: what one of them builds,
// the others find, and none removes what another uses.
var state string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the programs and, after the tests, removes the images they made.
func run(m *testing.M) (code int) {
	var err error
	if state, err = os.MkdirTemp("", "harbor-examples-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)
	if err := inRoot("make", "build"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	if err := inRoot("bin/harbor", "cleanup", "--images"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func inRoot(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "XDG_STATE_HOME="+state)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// desk is a directory that looks like the repository to somebody who follows the
// README, with results of its own.
type desk struct {
	root string // the repository
	dir  string
	env  []string
	jobs int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{root: root, dir: t.TempDir()}
	d.env = append(os.Environ(), "XDG_STATE_HOME="+state, "DEMO_JOBS="+filepath.Join(d.dir, "jobs"))
	for _, name := range []string{"bin", "examples"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// named gives the job of a command a name where it has none. By default it is the
// time, to the second, and these commands follow each other faster than a human's.
func (d *desk) named(command string) string {
	if !strings.Contains(command, "harbor run ") || strings.Contains(command, "--job-name") {
		return command
	}
	d.jobs++
	return fmt.Sprintf("%s --job-name job-%d", command, d.jobs)
}

// bash runs a script, which must succeed, and returns its standard output.
func (d *desk) bash(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = dir, d.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%s\n%s%s%v", script, stderr.String(), stdout.String(), err)
	}
	return stdout.String()
}

// TestREADME follows the README from top to bottom.
func TestREADME(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := filepath.Join(d.root, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := shellBlocks(string(readme))
	if len(blocks) < 5 || !strings.HasPrefix(blocks[0], "make demo ") {
		t.Fatalf("the README starts with %q", blocks)
	}
	shown := d.bash(t, d.root, "make demo")
	_, table, _ := strings.Cut(strings.ReplaceAll(shown, d.dir+"/", ""), "\nTRIAL")
	checkShown(t, path, string(readme), spaceAtEnd.ReplaceAllString("TRIAL"+table, "\n"))
	// The second command is the one that runs this test.
	d.bash(t, d.root, "make --dry-run test >/dev/null")
	for _, block := range blocks[1:] {
		for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
			out := d.bash(t, d.dir, d.named(line))
			if strings.Contains(line, "--diff") && !strings.Contains(out, "4 trials: reuse 2, regrade 0, rerun 2") {
				t.Errorf("%s does not do what is said about it:\n%s", line, out)
			}
		}
	}
}

var spaceAtEnd = regexp.MustCompile(` +\n`)

// checkShown compares what the demo prints last with what the README shows.
func checkShown(t *testing.T, path, readme, shown string) {
	t.Helper()
	const start, end = "<!-- demo -->\n```text\n", "```\n"
	before, rest, ok := strings.Cut(readme, start)
	text, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("the README has no block after %q", start)
	}
	if os.Getenv(update) != "" {
		if err := os.WriteFile(path, []byte(before+start+shown+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(steady(text), steady(shown)); diff != "" {
		t.Errorf("README.md shows another output of make demo (run `make golden`):\n%s", diff)
	}
}

// changing are the parts of an output that differ from run to run.
var changing = []struct {
	pattern *regexp.Regexp
	steady  string
}{
	{regexp.MustCompile(`__[0-9A-Za-z]{7}\b`), "__XXXXXXX"},
	{regexp.MustCompile(`demo-[0-9]{8}-[0-9]{6}-[0-9]+`), "demo-TIME"},
	{regexp.MustCompile(`\b([0-9]+h)?([0-9]+m)?[0-9.]+ ?(ms|µs|s)\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9]+ % of the time`), "N % of the time"},
	{regexp.MustCompile(`[ \t]+`), " "}, // columns are as wide as what is in them
}

// steady returns the lines of an output without what differs from run to run.
func steady(output string) []string {
	for _, c := range changing {
		output = c.pattern.ReplaceAllString(output, c.steady)
	}
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// TestCommentsOfExamples runs the commands that examples show in their comments.
func TestCommentsOfExamples(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	files, err := filepath.Glob(filepath.Join(d.root, "examples", "configs", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(d.root, "examples", "agent.sh"))
	command := regexp.MustCompile(`(?m)^# {3}(harbor .*)$`)
	var shown int
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range command.FindAllStringSubmatch(string(content), -1) {
			shown++
			d.bash(t, d.dir, "bin/"+d.named(m[1]))
		}
	}
	if shown < 4 {
		t.Errorf("the examples show %d commands", shown)
	}
}

// TestArtifacts looks at what several-rewards keeps.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.bash(t, d.dir, "bin/harbor run -p examples/tasks/several-rewards --job-name kept")
	got := strings.Fields(d.bash(t, d.dir, "cd jobs/kept/several-rewards__*/artifacts && find . -type f | sort"))
	want := []string{"./app/primes.txt", "./log/work.txt", "./manifest.json"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTasksAreSound: only the old form, on purpose, gives rise to warnings.
func TestTasksAreSound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	out := d.bash(t, d.dir, "bin/harbor task check examples/tasks")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "error") || strings.HasPrefix(line, "warning") && !strings.Contains(line, "/old-form/") {
			t.Errorf("examples: %s", line)
		}
	}
}

// TestProvidersPage reads the configuration that docs/providers.md shows.
func TestProvidersPage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	page, err := os.ReadFile(filepath.Join(d.root, "docs", "providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	config, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("docs/providers.md shows no configuration")
	}
	if err := os.WriteFile(filepath.Join(d.dir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out := d.bash(t, d.dir, "HARBOR_CONFIG=$PWD/config.yaml bin/harbor env list")
	for _, name := range []string{"docker ", "second ", "fake "} {
		if !strings.Contains(out, "\n"+name) {
			t.Errorf("harbor env list does not show %q:\n%s", name, out)
		}
	}
}

var fence = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// shellBlocks returns the commands of each block.
func shellBlocks(page string) []string {
	var out []string
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}
