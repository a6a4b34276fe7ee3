package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// searchesUnsaid is how many searches a request is held to make that does not say
// how many it may make.
const searchesUnsaid = 10

// readSearch is for keys that switch the provider's search on.
func readSearch(a *Ask, m Member) error {
	if v := string(m.Value); v != "null" && v != "[]" {
		a.Searches += searchesUnsaid
	}
	return nil
}

// readTools counts the searches that the provider's own tools may make. The
// client's tools cost nothing.
func readTools(a *Ask, m Member) error {
	if !bytes.Contains(m.Value, []byte("earch")) && !bytes.Contains(m.Value, []byte(`\u`)) {
		return nil
	}
	var tools []json.RawMessage
	if m.Value[0] == '{' { // Google takes one for a list of one
		tools = append(tools, m.Value)
	} else if err := decode(m, &tools); err != nil {
		return err
	}
	for _, t := range tools {
		if t[0] != '{' { // none that a provider knows
			continue
		}
		n, err := searches(t)
		if err != nil {
			return err
		}
		a.Searches += n
	}
	return nil
}

// searches is how many a tool may make, none when it is no search of the provider's.
// Of keys that come twice, what costs more counts.
func searches(tool []byte) (int64, error) {
	found, most := false, int64(0)
	err := Members(tool, func(m Member) error {
		switch fold(m.Key) {
		case "type":
			var kind string
			_ = json.Unmarshal(m.Value, &kind) // what is no text is no kind
			found = found || strings.HasPrefix(kind, "web_search")
		case "googlesearch", "google_search", "googlesearchretrieval", "google_search_retrieval":
			found = found || string(m.Value) != "null"
		case "max_uses":
			n, err := count(m)
			most = max(most, n)
			return err
		}
		return nil
	})
	switch {
	case err != nil || !found:
		return 0, err
	case most == 0:
		return searchesUnsaid, nil
	}
	return most, nil
}
