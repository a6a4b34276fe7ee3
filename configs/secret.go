package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"harborgate/tasks"
)

// secretKey matches the keys whose values are secrets.
var secretKey = regexp.MustCompile(`(?i)(key|keys|secret|secrets|token|password|passphrase|credential|credentials)$`)

// literalSecrets reports secrets that are written out. Only strings count: a
// mapping below such a key has keys of its own.
func (d *document) literalSecrets(v any, path string, secret bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			d.literalSecrets(v[key], join(path, key), secretKey.MatchString(key))
		}
	case []any:
		for i, x := range v {
			d.literalSecrets(x, element(path, i), secret)
		}
	case string:
		if secret && v != "" && !isReference(v) {
			d.fail(tasks.SeverityError, path, "literal-secret", "write env:NAME or file:/path, and keep the value there",
				"%s holds a secret itself", path)
		}
	}
}

// isReference knows the references of all readers; each takes those that it can follow.
func isReference(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	return ok && slices.Contains([]string{"env", "file", "credential", "command"}, scheme)
}

// ResolveSecret reads what a reference points to: env:NAME through lookup, or
// file:/path, without the line end. Its errors never hold the secret.
func ResolveSecret(reference string, lookup func(string) (string, bool)) (string, error) {
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		if v, ok := lookup(name); ok && v != "" {
			return v, nil
		}
		return "", fmt.Errorf("environment variable %s is not set; export it", name)
	}
	path, ok := strings.CutPrefix(reference, "file:")
	if !ok {
		return "", errors.New("a secret must be given as env:NAME or file:/path")
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("secret file %q is not an absolute path", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	v := strings.TrimRight(string(b), "\r\n")
	if v == "" {
		return "", fmt.Errorf("secret file %s is empty", path)
	}
	return v, nil
}
