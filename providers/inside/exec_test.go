package inside_test

import (
	"bytes"
	"testing"

	"harborgate/providers"
	"harborgate/providers/inside"
	"harborgate/providers/inside/insidetest"
)

func TestExecOutputAndStatus(t *testing.T) {
	t.Parallel()
	s := insidetest.Start(t).Open(t, inside.Options{ID: "box"})
	var out, errs bytes.Buffer
	st, err := s.Exec(t.Context(), providers.Command{
		Args: []string{"sh", "-c", "echo out; echo err >&2; exit 7"}, Stdout: &out, Stderr: &errs,
	})
	if err != nil || st.Code != 7 || out.String() != "out\n" || errs.String() != "err\n" {
		t.Fatalf("status %v, error %v, stdout %q, stderr %q", st, err, &out, &errs)
	}
}
