package inside_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"harborgate/providers"
	"harborgate/providers/inside"
	"harborgate/providers/inside/insidetest"
)

func TestExecStatusAndOutput(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	for _, c := range []struct {
		name string
		args []string
		want result
	}{
		{"success", []string{"true"}, result{}},
		{"code", []string{"sh", "-c", "echo out; echo err >&2; exit 7"},
			result{providers.ExitStatus{Code: 7}, "out\n", "err\n"}},
		{"255", []string{"sh", "-c", "exit 255"}, result{ExitStatus: providers.ExitStatus{Code: 255}}},
		{"signal", []string{"sh", "-c", "kill -9 $$"}, result{ExitStatus: providers.ExitStatus{Code: 137, Signal: 9}}},
		{"missing", []string{"no-such-program"},
			result{providers.ExitStatus{Code: 127}, "", "harbor-inside: no-such-program: not found\n"}},
		{"not executable", []string{"/etc/passwd"},
			result{providers.ExitStatus{Code: 126}, "", "harbor-inside: /etc/passwd: cannot be executed: permission denied\n"}},
		{"directory", []string{"/etc"},
			result{providers.ExitStatus{Code: 126}, "", "harbor-inside: /etc: cannot be executed: permission denied\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, s, providers.Command{Args: c.args}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// Whoever started the engine may ignore signals, and a container inherits that: a
// server that is started without job control is born with SIGTSTP ignored, and one
// that make starts, with the two signals of the C library.
func TestIgnoredSignalsOfTheEngineReachNoCommand(t *testing.T) {
	t.Parallel()
	makefile := filepath.Join(t.TempDir(), "Makefile")
	if err := os.WriteFile(makefile, []byte("all:\n\t@exec $(COMMAND)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := insidetest.Start(t)
	c.Under = []string{"sh", "-c", `trap '' HUP INT QUIT PIPE TERM CONT TSTP TTIN TTOU USR1 XFSZ
		COMMAND="$*" exec make -s -f ` + makefile, "sh"}
	got := run(t, c.Open(t, inside.Options{}), sh("grep ^SigIgn: /proc/self/status"))
	if want := (result{out: "SigIgn:\t0000000000000000\n"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestExecRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	long := strings.Repeat("x", 200_000)
	many := map[string]string{}
	for i := range 40 {
		many["V"+strconv.Itoa(i)] = strings.Repeat("x", 100_000)
	}
	for name, c := range map[string]struct {
		cmd  providers.Command
		text string
	}{
		"no program":                  {providers.Command{}, "without a program"},
		"TestB042 argument too long":  {providers.Command{Args: []string{"echo", long}}, "argument 1 is 200000 bytes long"},
		"TestB042 variable too long":  {providers.Command{Args: []string{"env"}, Env: map[string]string{"LONG": long}}, "environment variable LONG is 200005 bytes long"},
		"TestB042 too much in all":    {providers.Command{Args: []string{"env"}, Env: many}, "use a file or standard input"},
		"NUL in an argument":          {providers.Command{Args: []string{"echo", "a\x00b"}}, "NUL"},
		"variable without a name":     {providers.Command{Args: []string{"env"}, Env: map[string]string{"": "x"}}, "without a name"},
		"missing directory":           {providers.Command{Args: []string{"true"}, Dir: "/no/such"}, "/no/such"},
		"directory is a file":         {providers.Command{Args: []string{"true"}, Dir: "/etc/passwd"}, "is a file"},
		"unknown user":                {providers.Command{Args: []string{"true"}, User: "nobody-knows"}, `"nobody-knows"`},
		"unknown group":               {providers.Command{Args: []string{"true"}, User: "root:nobody-knows"}, `"nobody-knows"`},
		"user may not enter":          {providers.Command{Args: []string{"true"}, User: "65534", Dir: "/root"}, "may not enter"},
		"secret variable is not told": {providers.Command{Args: []string{"env"}, SecretEnv: map[string]string{"KEY": long}}, "KEY is 200004 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Exec(t.Context(), c.cmd)
			wantKind(t, err, providers.KindInvalid, "exec box", c.text)
			if strings.Contains(err.Error(), "xxxx") {
				t.Errorf("the error shows a value: %.300s", err)
			}
		})
	}
}

func TestExecLongestArgument(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	got := run(t, s, providers.Command{Args: []string{"sh", "-c", "printf %s \"$1\" | wc -c", "sh", strings.Repeat("x", 131071)}})
	if got.out != "131071\n" {
		t.Errorf("got %+v", got)
	}
}

func TestExecEnvironmentIsByteIdentical(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{Env: map[string]string{"LOW": "session", "KEPT": "yes"}})
	values := map[string]string{
		"SPACE": " a b ", "QUOTES": `'"`, "DOLLAR": "$HOME", "BACK": `\n\`, "NL": "a\nb", "EQ": "a=b", "EMPTY": "",
		"BYTES": "\xff\x80é", "LOW": "command",
	}
	got := run(t, s, providers.Command{Args: []string{"env", "-0"}, Env: values, SecretEnv: map[string]string{"SECRET": "s"}})
	env := map[string]string{}
	for _, e := range strings.Split(got.out, "\x00") {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	values["SECRET"], values["KEPT"] = "s", "yes"
	for name, want := range values {
		if have, ok := env[name]; !ok || have != want {
			t.Errorf("%s is %q, want %q", name, have, want)
		}
	}
	if env["PATH"] == "" || env["HOME"] == "" || env["GOGC"] != "" {
		t.Errorf("environment %q", env)
	}
}

func TestExecDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, inside.Options{Dir: dir})
	for in, want := range map[string]string{"": dir, "sub": dir + "/sub", "/": "/"} {
		if got := run(t, s, providers.Command{Args: []string{"pwd"}, Dir: in}); got.out != want+"\n" {
			t.Errorf("in %q: got %q, want %q", in, got.out, want)
		}
	}
}

func TestExecStdin(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18) // 4 MiB
	var out bytes.Buffer
	run(t, s, providers.Command{Args: []string{"cat"}, Stdin: bytes.NewReader(big), Stdout: &out})
	if !bytes.Equal(out.Bytes(), big) {
		t.Errorf("cat returned %d bytes of %d", out.Len(), len(big))
	}
	if got := run(t, s, sh("cat; readlink /proc/self/fd/0")); got.out != "/dev/null\n" {
		t.Errorf("without an input: %+v", got)
	}
	got := run(t, s, providers.Command{Args: []string{"true"}, Stdin: bytes.NewReader(big)})
	if !got.OK() {
		t.Errorf("a command that does not read: %+v", got)
	}
}

func TestExecDoesNotWaitForStdin(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	r, w := io.Pipe()
	defer w.Close()
	if got := run(t, s, providers.Command{Args: []string{"true"}, Stdin: r}); !got.OK() {
		t.Errorf("got %+v", got)
	}
}

func TestExecInputThatBreaksOffIsNoEnd(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	broken := io.MultiReader(strings.NewReader("half"), errReader{errors.New("disk on fire")})
	_, err := s.Exec(t.Context(), providers.Command{Args: []string{"cat"}, Stdin: broken})
	if err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestExecWriterThatFailsEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	_, err := s.Exec(t.Context(), providers.Command{Args: []string{"yes"}, Stdout: errWriter{errors.New("disk full")}})
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("got %v", err)
	}
}

type errWriter struct{ err error }

func (e errWriter) Write([]byte) (int, error) { return 0, e.err }

func TestB033ManyBytesOnBothOutputs(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	got := run(t, s, sh("head -c 300000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero | tr '\\0' y >&2"))
	if got.out != strings.Repeat("x", 300000) || got.errs != strings.Repeat("y", 300000) {
		t.Errorf("%d and %d bytes", len(got.out), len(got.errs))
	}
}

func TestB036BytesArriveRaw(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	want := "\x80\xff\x00\xed\xa0\x80\xfe"
	if got := run(t, s, sh(`printf '\200\377\000\355\240\200\376'`)); got.out != want {
		t.Errorf("got %q, want %q", got.out, want)
	}
}

func TestB038OneWriterKeepsTheOrder(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	var both bytes.Buffer
	run(t, s, providers.Command{
		Args:   []string{"sh", "-c", "i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); echo $i >&2; i=$((i+1)); done"},
		Stdout: &both, Stderr: &both,
	})
	for i, line := range strings.Fields(both.String()) {
		if line != strconv.Itoa(i) {
			t.Fatalf("line %d is %s", i, line)
		}
	}
	if n := strings.Count(both.String(), "\n"); n != 1000 {
		t.Errorf("%d lines", n)
	}
}

func TestB019BackgroundChildHoldsTheOutput(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	pidFile := filepath.Join(t.TempDir(), "pid")
	got := run(t, s, sh("sh -c 'echo $$ > "+pidFile+"; while :; do echo spam; sleep 0.01; done' & while [ ! -s "+pidFile+" ]; do :; done; echo done"))
	if !strings.Contains(got.out, "done\n") {
		t.Errorf("got %+v", got)
	}
	// It goes on, though nobody takes its output.
	if !alive(readPID(t, pidFile)) {
		t.Error("the background child is dead")
	}
}

func readPID(t testing.TB, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// slowWriter takes a byte at a time, after the first it waits for go-ahead.
type slowWriter struct {
	buf   bytes.Buffer
	start chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-w.start
	return w.buf.Write(p)
}

func TestExecSlowWriterLosesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	marker := filepath.Join(t.TempDir(), "done")
	w := &slowWriter{start: make(chan struct{})}
	var st providers.ExitStatus
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		st, err = s.Exec(t.Context(), providers.Command{
			Args: []string{"sh", "-c", "seq 1000000; touch " + marker}, Stdout: w,
		})
	}()
	// The command blocks on its full pipe: other commands still work.
	run(t, s, sh("true"))
	if _, serr := os.Stat(marker); serr == nil {
		t.Error("the command did not wait for its reader")
	}
	close(w.start)
	<-ended
	if err != nil || !st.OK() || !strings.HasSuffix(w.buf.String(), "\n1000000\n") || w.buf.Len() != 6888896 {
		t.Errorf("%v, %v, %d bytes", st, err, w.buf.Len())
	}
}

func TestExecTerminal(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	tty := &providers.TTY{Rows: 33, Cols: 77}
	got := run(t, s, providers.Command{Args: []string{"sh", "-c", "stty size; tty >/dev/tty; test -t 0 -a -t 1 -a -t 2; echo $? $TERM; cat"}, TTY: tty})
	if !strings.HasPrefix(got.out, "33 77\r\n/dev/pts/") || !strings.Contains(got.out, "\r\n0 xterm") && !strings.Contains(got.out, "\r\n0 ") {
		t.Errorf("got %+v", got)
	}
	got = run(t, s, providers.Command{Args: []string{"sh", "-c", "read x; echo got $x"}, TTY: tty, Stdin: strings.NewReader("hello\n")})
	if !strings.Contains(got.out, "got hello") {
		t.Errorf("with an input: %+v", got)
	}
}

func TestExecManyAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if got := run(t, s, sh(fmt.Sprintf("echo %d; exit %d", i, i))); got.Code != i || got.out != fmt.Sprintln(i) {
				t.Errorf("%d: got %+v", i, got)
			}
		})
	}
	all.Wait()
}

func TestExecContextEndedBefore(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	marker := filepath.Join(t.TempDir(), "ran")
	if _, err := s.Exec(ctx, sh("touch "+marker)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the command ran")
	}
}

func TestSessionClosed(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	errs := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := s.Exec(t.Context(), providers.Command{Args: []string{"sh", "-c", "echo; sleep 600"}, Stdout: onWrite(func() { close(started) })})
		errs <- err
	}()
	<-started
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, <-errs, providers.KindNotFound, "exec box", "destroyed")
	_, err := s.Exec(t.Context(), sh("true"))
	wantKind(t, err, providers.KindNotFound)
	wantKind(t, s.Upload(t.Context(), strings.NewReader(""), "/tmp/x"), providers.KindNotFound)
	_, err = s.Download(t.Context(), "/tmp")
	wantKind(t, err, providers.KindNotFound)
	_, _, err = s.Expose(t.Context(), nil)
	wantKind(t, err, providers.KindNotFound)
}

// onWrite calls a function at every Write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
