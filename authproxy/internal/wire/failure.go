package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// fail notes that a document is an error, whatever the status that it came with:
// gateways report the failures of those behind them with 200, and a stream has no
// other way.
func (r *Report) fail(d *document) {
	said := d.Error
	if d.Response != nil && !isError(said) {
		said = d.Response.Error
	}
	failed := d.Type == "error" || d.Type == "response.failed" || d.Status == "failed"
	if !failed && !isError(said) {
		return
	}
	r.Failed = true
	r.Clients = aboutTheRequest(said)
}

// isError reports whether the value of an error key is one: some answers that are
// none have the key too.
func isError(value json.RawMessage) bool {
	return !slices.Contains([]string{"", "null", "false", `""`, "{}", "[]"}, string(value))
}

// aboutTheRequest reports whether an error says that the request was wrong, so that
// whoever asked is to blame for it.
func aboutTheRequest(said json.RawMessage) bool {
	var e struct {
		Type string          `json:"type"`
		Code json.RawMessage `json:"code"` // a status, or a name
	}
	if !read(said, &e) {
		return false
	}
	code := strings.Trim(string(e.Code), `"`)
	if status, err := strconv.Atoi(code); err == nil {
		return slices.Contains([]int{
			http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		}, status)
	}
	names := []string{"invalid_request_error", "not_found_error", "permission_error", "request_too_large", "invalid_prompt", "context_length_exceeded"}
	return slices.Contains(names, e.Type) || slices.Contains(names, code)
}

// finishedWithError reports whether a chat completion, or a chunk of one, says that
// it finished because of an error. The key cannot be within a text: there its quotes
// would be escaped.
func finishedWithError(data []byte) bool {
	key := []byte(`"finish_reason"`)
	for {
		i := bytes.Index(data, key)
		if i < 0 {
			return false
		}
		data = data[i+len(key):]
		colon := space(data, 0)
		if colon == len(data) || data[colon] != ':' {
			continue
		}
		if bytes.HasPrefix(data[space(data, colon+1):], []byte(`"error"`)) {
			return true
		}
	}
}
