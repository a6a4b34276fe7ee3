package providertest

import (
	"context"
	"strings"

	"harborgate/providers"
)

func environmentCases() []Case {
	return []Case{
		{"env/every-value-verbatim", nil, inSandbox(envVerbatim)},
		{"env/of-the-sandbox", nil, envOfSandbox},
		{"env/secrets-stay-in-their-command", nil, inSandbox(envSecret)},
		{"env/value-over-the-limit", nil, inSandbox(envTooBig)},
		{"env/argument-over-the-limit", nil, inSandbox(argTooBig)},
		{"dir/default", nil, dirDefault},
		{"dir/explicit", nil, inSandbox(dirExplicit)},
		{"dir/missing", nil, inSandbox(dirMissing)},
	}
}

func envVerbatim(ctx context.Context, e *Env, sb providers.Sandbox) {
	values := map[string]string{
		"T_SPACES": "  two  spaces  ", "T_QUOTES": `'single' "double"`, "T_DOLLAR": "$HOME ${HOME} $(id) `id`",
		"T_BACKSLASH": `a\b\\c\n`, "T_NEWLINE": "one\ntwo\n", "T_EQUALS": "a=b=c", "T_UNICODE": "naïve 雪 🚢",
		"T_EMPTY": "", "T_PERCENT": "%s%d%%", "T_GLOB": "*?[a]",
	}
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"env", "-0"}, Env: values})
	if out.Err != nil {
		e.Fatalf("env: %v", out)
	}
	got := map[string]string{}
	for kv := range strings.SplitSeq(out.Stdout, "\x00") {
		name, value, _ := strings.Cut(kv, "=")
		got[name] = value
	}
	for name, want := range values {
		if value, ok := got[name]; !ok || value != want {
			e.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}

func envOfSandbox(ctx context.Context, e *Env) {
	sb := e.Create(ctx, func(s *providers.Spec) {
		s.Env = map[string]string{"OF_SANDBOX": "it's here", "BOTH": "sandbox"}
	})
	out := e.Exec(ctx, sb, providers.Command{
		Args: []string{"/bin/sh", "-c", `printf '%s|%s|%s' "$OF_SANDBOX" "$BOTH" "$OF_COMMAND"`},
		Env:  map[string]string{"BOTH": "command", "OF_COMMAND": "mine"},
	})
	if want := "it's here|command|mine"; out.Err != nil || out.Stdout != want {
		e.Errorf("want %q, got %v", want, out)
	}
	e.Want(ctx, sb, `printf '%s|%s' "$BOTH" "${OF_COMMAND-none}"`, "sandbox|none")
}

func envSecret(ctx context.Context, e *Env, sb providers.Sandbox) {
	const secret = "canary-5f3a9c"
	show := []string{"/bin/sh", "-c", `printf %s "$TOKEN"`}
	out := e.Exec(ctx, sb, providers.Command{Args: show, SecretEnv: map[string]string{"TOKEN": secret}})
	if out.Err != nil || out.Stdout != secret {
		e.Errorf("the secret does not reach its command: %v", out)
	}
	if out = e.Exec(ctx, sb, providers.Command{Args: show}); out.Stdout != "" {
		e.Errorf("a later command sees the secret: %v", out)
	}
	// The pattern is written so that the search does not find itself.
	found := e.Sh(ctx, sb, `cat /proc/1/environ /proc/1/cmdline 2>/dev/null | tr '\0' '\n' | grep -c 'canary-5f3a9[c]'`)
	if strings.TrimSpace(found.Stdout) != "0" {
		e.Errorf("the first process shows the secret: %v", found)
	}
	bad := e.Exec(ctx, sb, providers.Command{Args: show, Dir: "/no/such/dir", SecretEnv: map[string]string{"TOKEN": secret}})
	if bad.Err == nil || strings.Contains(bad.Err.Error(), secret) {
		e.Errorf("want an error without the secret, got %v", bad)
	}
}

// overLimit is more than Linux takes for one argument or variable.
const overLimit = 200_000

func envTooBig(ctx context.Context, e *Env, sb providers.Sandbox) {
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"true"}, Env: map[string]string{"BIG": strings.Repeat("x", overLimit)}})
	e.WantKind("a variable of 200 kB", out.Err, providers.KindInvalid)
	e.Want(ctx, sb, "echo still here", "still here\n")
}

func argTooBig(ctx context.Context, e *Env, sb providers.Sandbox) {
	big := strings.Repeat("x", overLimit)
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"printf", "%s", big}})
	if out.Err == nil {
		if out.Stdout != big {
			e.Errorf("an argument of 200 kB arrived as %d bytes", len(out.Stdout))
		}
		return
	}
	e.WantKind("an argument of 200 kB", out.Err, providers.KindInvalid)
	e.Want(ctx, sb, "echo still here", "still here\n")
}

func dirDefault(ctx context.Context, e *Env) {
	sb := e.Create(ctx, func(s *providers.Spec) { s.Workdir = "/srv/work" })
	e.Want(ctx, sb, "pwd", "/srv/work\n")
}

func dirExplicit(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, `mkdir -p "/tmp/my dir"`)
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"pwd"}, Dir: "/tmp/my dir"})
	if out.Err != nil || out.Stdout != "/tmp/my dir\n" {
		e.Errorf("got %v", out)
	}
}

func dirMissing(ctx context.Context, e *Env, sb providers.Sandbox) {
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"true"}, Dir: "/no/such/dir"})
	e.WantKind("a working directory that is not there", out.Err, providers.KindInvalid)
	if out.Err != nil && !strings.Contains(out.Err.Error(), "/no/such/dir") {
		e.Errorf("the error does not name the directory: %v", out.Err)
	}
}
