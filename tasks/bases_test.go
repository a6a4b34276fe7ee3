package tasks

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestBasesOfADockerfile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "ARG V=1\nFROM --platform=linux/amd64 golang:1.26 AS Build\nRUN <<SQL\nFROM nothing\nSQL\nFROM build AS second\nFROM img:$V\nFROM scratch\nfrom debian:12\nCOPY --from=second / /\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadBaseImages(filepath.Join(dir, "Dockerfile")); err != nil || !slices.Equal(got, []BaseImage{{"golang:1.26", 2}, {"img:$V", 7}, {"debian:12", 9}}) {
		t.Errorf("%v %v", got, err)
	}
}
