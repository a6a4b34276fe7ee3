package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"harborgate/internal/atomicfile"
	"harborgate/providers"
)

// Where harbor-inside is inside a sandbox.
const (
	insideDir  = "/.harbor"
	insidePath = insideDir + "/inside"
)

// helper finds harbor-inside on this host.
type helper struct {
	dir, cache string

	mu    sync.Mutex // guards found and copied
	found map[string]string
	copy  bool // the engine does not see this host's files: copy, do not mount
}

// find returns the path of the helper for an architecture, under the name of
// its content in the cache.
func (h *helper) find(arch string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if path, ok := h.found[arch]; ok {
		return path, nil
	}
	name := "harbor-inside-linux-" + arch
	src := filepath.Join(h.dir, name)
	b, err := os.ReadFile(src)
	if err != nil {
		return "", providers.Errorf(providers.KindUnsupported, "find harbor-inside",
			"%s is needed beside the harbor program and could not be read (%w): run `make build`, or set HARBOR_INSIDE_DIR to the directory that has it", name, err)
	}
	path := src
	if h.cache != "" {
		sum := sha256.Sum256(b)
		path = filepath.Join(h.cache, "inside", hex.EncodeToString(sum[:8]), name)
		if fi, err := os.Stat(path); err != nil || fi.Size() != int64(len(b)) {
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if err == nil {
				err = atomicfile.Write(path, b, 0o755)
			}
			if err != nil {
				return "", fmt.Errorf("keep harbor-inside: %w; name a directory that this user may write to in XDG_CACHE_HOME", err)
			}
		}
	}
	if h.found == nil {
		h.found = map[string]string{}
	}
	h.found[arch] = path
	return path, nil
}

func (h *helper) mustCopy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.copy
}

func (h *helper) setCopy() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.copy = true
}

// archive packs the helper for CopyToContainer at "/".
func (h *helper) archive(path string) (*bytes.Buffer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, hdr := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: insideDir[1:] + "/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: insidePath[1:], Mode: 0o755, Size: int64(len(b))},
	} {
		if err := w.WriteHeader(hdr); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	return &buf, w.Close()
}
