package providertest

import (
	"context"
	"strings"

	"harborgate/providers"
)

func userCases() []Case {
	return []Case{
		{"user/by-name", []Need{NeedUsers}, inSandbox(userByName)},
		{"user/by-number", []Need{NeedUsers}, inSandbox(userByNumber)},
		{"user/with-group", []Need{NeedUsers}, inSandbox(userWithGroup)},
		{"user/unknown", []Need{NeedUsers}, inSandbox(userUnknown)},
		{"user/default", []Need{NeedUsers}, userDefault},
		{"user/home", []Need{NeedUsers}, inSandbox(userHome)},
		{"user/kept-out", []Need{NeedUsers}, inSandbox(userKeptOut)},
	}
}

const showIDs = `echo "$(id -u) $(id -g)"`

func (e *Env) wantAs(ctx context.Context, sb providers.Sandbox, user, script, want string) {
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"/bin/sh", "-c", script}, User: user})
	if out.Err != nil || out.Stdout != want {
		e.Errorf("as %q: want %q, got %v", user, want, out)
	}
}

func userByName(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.wantAs(ctx, sb, "nobody", showIDs, "65534 65534\n")
	e.wantAs(ctx, sb, "daemon", showIDs, "1 1\n")
	e.wantAs(ctx, sb, "root", showIDs, "0 0\n")
}

func userByNumber(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.wantAs(ctx, sb, "1", showIDs, "1 1\n")
	e.wantAs(ctx, sb, "12345", "id -u", "12345\n")
}

func userWithGroup(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.wantAs(ctx, sb, "nobody:daemon", showIDs, "65534 1\n")
	e.wantAs(ctx, sb, "12345:54321", showIDs, "12345 54321\n")
}

func userUnknown(ctx context.Context, e *Env, sb providers.Sandbox) {
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"true"}, User: "nosuchuser"})
	e.WantKind("an unknown user", out.Err, providers.KindInvalid)
	if out.Err != nil && !strings.Contains(out.Err.Error(), "nosuchuser") {
		e.Errorf("the error does not name the user: %v", out.Err)
	}
	out = e.Exec(ctx, sb, providers.Command{Args: []string{"true"}, User: "root:nosuchgroup"})
	e.WantKind("an unknown group", out.Err, providers.KindInvalid)
}

func userDefault(ctx context.Context, e *Env) {
	sb := e.Create(ctx, func(s *providers.Spec) { s.User = "nobody" })
	e.Want(ctx, sb, "id -u", "65534\n")
	e.wantAs(ctx, sb, "root", "id -u", "0\n")
}

func userHome(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.wantAs(ctx, sb, "root", "echo $HOME", "/root\n")
	e.wantAs(ctx, sb, "daemon", "echo $HOME", "/usr/sbin\n")
	out := e.Exec(ctx, sb, providers.Command{
		Args: []string{"/bin/sh", "-c", "echo $HOME"}, User: "daemon", Env: map[string]string{"HOME": "/mine"},
	})
	if out.Stdout != "/mine\n" {
		e.Errorf("a HOME that is given must stay: %v", out)
	}
}

func userKeptOut(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "echo private > /tmp/private; chmod 600 /tmp/private")
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"cat", "/tmp/private"}, User: "nobody"})
	if out.Err != nil || out.Status.OK() || strings.Contains(out.Stdout, "private") {
		e.Errorf("another user reads a file of mode 0600: %v", out)
	}
}
