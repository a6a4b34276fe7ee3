package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
	"github.com/docker/docker/api/types/registry"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/auth/authprovider"
)

// dockerHub is where the docker command keeps the login of the default registry.
const dockerHub = "https://index.docker.io/v1/"

// registryAuth is the user's docker login for the registry of an image, in the
// header's encoding; "" when there is none.
func registryAuth(ctx context.Context, ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("image reference %q: %w", ref, err)
	}
	l, err := login(ctx, reference.Domain(named))
	if err != nil || l.Username == "" && l.IdentityToken == "" && l.RegistryToken == "" {
		return "", err
	}
	return registry.EncodeAuthConfig(registry.AuthConfig{
		Username: l.Username, Password: l.Password, Auth: l.Auth,
		ServerAddress: l.ServerAddress, IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken,
	})
}

// registryLogins answers BuildKit's questions with the user's docker logins.
func registryLogins() session.Attachable {
	return authprovider.NewDockerAuthProvider(authprovider.DockerAuthProviderConfig{
		AuthConfigProvider: func(ctx context.Context, host string, _ []string, _ authprovider.ExpireCachedAuthCheck) (types.AuthConfig, error) {
			return login(ctx, host)
		},
	})
}

// login is the user's docker login for a registry, zero when there is none.
func login(ctx context.Context, host string) (types.AuthConfig, error) {
	if host == "docker.io" || host == authprovider.DockerHubRegistryHost {
		host = dockerHub
	}
	file := config.LoadDefaultConfigFile(io.Discard)
	helper := file.CredentialHelpers[host]
	if helper == "" {
		helper = file.CredentialsStore
	}
	var l types.AuthConfig
	var err error
	if helper == "" {
		l, err = file.GetAuthConfig(host)
	} else {
		l, err = askHelper(ctx, "docker-credential-"+helper, host)
	}
	if err != nil {
		return l, fmt.Errorf("docker login of %s: %w", host, err)
	}
	return l, nil
}

const (
	// helperLimit bounds a credential helper, helperDrain the wait for its output
	// after its end.
	helperLimit = 30 * time.Second
	helperDrain = time.Second
	// noLogin is what helpers say when they have none.
	noLogin = "credentials not found"
	// tokenUser stands for a user name where the secret is a token.
	tokenUser = "<token>"
)

// askHelper asks a program that keeps logins. It has a process group of its own,
// all of which ends with ctx.
func askHelper(ctx context.Context, program, host string) (types.AuthConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "get")
	cmd.Stdin, cmd.Stdout = strings.NewReader(host), &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = helperDrain
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it left something running, an agent of its own perhaps
	}
	switch {
	case ctx.Err() != nil:
		return types.AuthConfig{}, fmt.Errorf("%s did not answer: %w", program, ctx.Err())
	case err != nil && strings.Contains(out.String(), noLogin):
		return types.AuthConfig{}, nil
	case err != nil:
		return types.AuthConfig{}, fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(out.String()))
	}
	var said struct{ Username, Secret string }
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		return types.AuthConfig{}, fmt.Errorf("%s: its answer is no JSON", program) // and may hold a secret
	}
	if said.Username == tokenUser {
		return types.AuthConfig{ServerAddress: host, IdentityToken: said.Secret}, nil
	}
	return types.AuthConfig{ServerAddress: host, Username: said.Username, Password: said.Secret}, nil
}
