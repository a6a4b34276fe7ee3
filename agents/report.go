package agents

import (
	"archive/tar"
	"context"
	"io"
	"time"
)

const (
	// largestReport is far more than a record of a run takes.
	largestReport = 256 << 20
	// reportTime is what there is to read it, also of a run whose time is over.
	reportTime = 20 * time.Second
)

// fetchReport reads a file that the agent left. What is missing, is no file or is
// absurdly large is nothing: the agent did not say how it went.
func fetchReport(ctx context.Context, w *Workplace, path string) []byte {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	r, err := w.Sandbox.Download(ctx, path)
	if err != nil {
		return nil
	}
	defer r.Close()
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil || h.Typeflag != tar.TypeReg || h.Size > largestReport {
		return nil
	}
	doc, err := io.ReadAll(t)
	if err != nil {
		return nil
	}
	return doc
}
