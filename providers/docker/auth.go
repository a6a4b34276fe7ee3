package docker

import (
	"fmt"
	"io"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config"
	"github.com/docker/docker/api/types/registry"
)

// dockerHub is where the docker command keeps the login of the default registry.
const dockerHub = "https://index.docker.io/v1/"

// registryAuth is the user's docker login for the registry of an image, in the
// header's encoding; "" when there is none.
func registryAuth(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("image reference %q: %w", ref, err)
	}
	host := reference.Domain(named)
	if host == "docker.io" {
		host = dockerHub
	}
	login, err := config.LoadDefaultConfigFile(io.Discard).GetAuthConfig(host)
	if err != nil {
		return "", fmt.Errorf("docker login of %s: %w", host, err)
	}
	if login.Username == "" && login.IdentityToken == "" && login.RegistryToken == "" {
		return "", nil
	}
	return registry.EncodeAuthConfig(registry.AuthConfig{
		Username: login.Username, Password: login.Password, Auth: login.Auth,
		ServerAddress: login.ServerAddress, IdentityToken: login.IdentityToken, RegistryToken: login.RegistryToken,
	})
}
