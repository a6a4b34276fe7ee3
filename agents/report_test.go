package agents

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"testing"

	"harborgate/providers"
)

// holder is a sandbox with one entry at every path.
type holder struct {
	providers.Sandbox
	entry *tar.Header // nil is nothing
	text  string
}

func (h holder) Download(ctx context.Context, _ string) (io.ReadCloser, error) {
	if h.entry == nil || ctx.Err() != nil {
		return nil, providers.Errorf(providers.KindNotFound, "download", "nothing there")
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(h.entry)
	_, _ = io.WriteString(w, h.text)
	return io.NopCloser(&b), nil
}

// A run whose time is over has a report, too, and what is none is read by nobody.
func TestReports(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		box  holder
		want string
	}{
		"a file":     {holder{entry: &tar.Header{Name: "r", Typeflag: tar.TypeReg, Size: 2}, text: "{}"}, "{}"},
		"nothing":    {holder{}, ""},
		"a pipe":     {holder{entry: &tar.Header{Name: "r", Typeflag: tar.TypeFifo}}, ""},
		"too large":  {holder{entry: &tar.Header{Name: "r", Typeflag: tar.TypeReg, Size: largestReport + 1}}, ""},
		"cut before": {holder{entry: &tar.Header{Name: "r", Typeflag: tar.TypeReg, Size: 9}, text: "{"}, ""},
	} {
		if got := fetchReport(ctx, &Workplace{Sandbox: c.box}, "/logs/agent/r"); string(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
