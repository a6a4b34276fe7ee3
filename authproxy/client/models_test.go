package client_test

import (
	"strings"
	"testing"
)

func TestModelsThroughTheService(t *testing.T) {
	t.Parallel()
	c, mock := serve(t)
	got, err := c.Models(t.Context(), "anthropic")
	if err != nil || len(got) != 1 || got[0].ID != "mock" {
		t.Errorf("%v %v", got, err)
	}
	if q := mock.Requests(); len(q) != 1 || q[0].Header.Get("X-Api-Key") != canary {
		t.Errorf("the upstream got %+v", q)
	}
	if _, err := c.Models(t.Context(), "no/such"); err == nil || !strings.Contains(err.Error(), "there is no upstream") {
		t.Errorf("got %v", err)
	}
}
