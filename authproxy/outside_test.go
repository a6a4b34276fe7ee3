package authproxy

import (
	"fmt"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Nothing that comes from a sandbox selects code, scripts or sockets of the host:
// programs are run in one file only, for references of the configuration, and what
// a request names goes nowhere.
func TestAttack31Row27NothingFromASandboxSelectsCode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if runs := i.Path.Value == `"os/exec"` || i.Path.Value == `"plugin"`; runs && file != "keyref.go" {
				t.Errorf("%s runs programs", file)
			}
		}
	}
	r := start(t)
	mark := filepath.Join(t.TempDir(), "mark")
	command := "command:touch " + mark
	a := r.do(t.Context(), "POST", messages+"?key="+r.token, `{"model":"m","messages":[],"api_key":"`+command+`","keys":["`+command+`"]}`, http.Header{
		"X-Mitm-Script": {mark}, "X-Api-Key": {r.token}, "X-Credential-Socket": {mark}, "X-Config": {command},
	})
	if a.status != 200 {
		t.Errorf("%+v", a)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a request ran a program")
	}
	if all := fmt.Sprint(r.mock.Requests()[0].Header); strings.Contains(all, mark) {
		t.Errorf("%s", all)
	}
}

// There are no refresh tokens that parallel requests could use twice: a credential
// is fetched once for each configuration, whoever asks, and no client reaches an
// endpoint that makes new ones.
func TestRow21CredentialsAreFetchedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count, program := filepath.Join(dir, "count"), filepath.Join(dir, "helper")
	syscall.ForkLock.RLock() // a child that is started meanwhile would keep the file busy
	err := os.WriteFile(program, []byte("#!/bin/sh\necho x >> "+count+"\necho "+canary+"\n"), 0o700)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(c *Config, o *Options) {
		u := c.Upstreams["anthropic"]
		u.Keys = []KeyRef{KeyRef("command:" + program)}
		c.Upstreams["anthropic"] = u
		lookup := o.Sources.LookupEnv
		o.Sources.LookupEnv = func(name string) (string, bool) {
			if name == "PATH" {
				return os.Getenv("PATH"), true
			}
			return lookup(name)
		}
	})
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			if a := r.post(messages, ask); a.status != 200 {
				t.Errorf("%+v", a)
			}
			if a := r.post("/anthropic/v1/oauth/token", `{"grant_type":"refresh_token"}`); a.status != 404 {
				t.Errorf("%+v", a)
			}
		})
	}
	clients.Wait()
	text, err := os.ReadFile(count)
	if err != nil || strings.Count(string(text), "x") != 1 {
		t.Errorf("fetched as often as %q says, %v", text, err)
	}
}
