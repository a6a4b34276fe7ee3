package wire

import (
	"encoding/json"
	"testing"
)

func TestSearchesThatARequestMayMake(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int64{
		`{"tools":[{"type":"web_search_20250305","max_uses":3},{"type":"web_search"}]}`:     3 + searchesUnsaid,
		`{"tools":[{"type":"web_search","max_uses":2,"max_uses":5}]}`:                       5,
		`{"tools":[{"type":"custom","name":"web_search"}]}`:                                 0,
		`{"tools":[{"functionDeclarations":[{"name":"search"}]},{"google_search":{}}]}`:     searchesUnsaid,
		`{"tools":[{"google_search":null}]}`:                                                0,
		`{"tools":["search", 1]}`:                                                           0,
		`{"tools":{"functionDeclarations":[{"name":"search"}]}}`:                            0,
		`{"tools":{"googleSearch":{}}}`:                                                     searchesUnsaid,
		`{"tools":null}`:                                                                    0,
		`{"web_search_options":{}}`:                                                         searchesUnsaid,
		`{"plugins":[{"id":"web"}]}`:                                                        searchesUnsaid,
		`{"plugins":[],"tools":[{"type":"file_search"},{"t\u0079pe":"web\u005fsearch_1"}]}`: searchesUnsaid,
	} {
		sent := []byte(body)
		if a, err := Scan(sent); err != nil || a.Searches != want || string(sent) != body {
			t.Errorf("%s: %d %v, want %d; it is sent as %s", body, a.Searches, err, want, sent)
		}
	}
	if _, err := Scan([]byte(`{"tools":"search"}`)); err == nil {
		t.Error("tools that are no list")
	}
}

func TestSearchesThatAnAnswerShows(t *testing.T) {
	t.Parallel()
	for body, f := range map[string]Format{
		`{"usage":{"input_tokens":1,"output_tokens":1,"server_tool_use":{"web_search_requests":2}}}`:                                                      Messages,
		`{"response":{"output":[{"type":"web_search_call"},{"type":"message"},{"type":"web_search_call"}],"usage":{"input_tokens":1,"output_tokens":1}}}`: Responses,
		`{"candidates":[{"groundingMetadata":{"webSearchQueries":["a","b"]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`:           Generate,
	} {
		var d document
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			t.Fatal(err)
		}
		var r Report
		r.take(f, &d)
		if r.Usage.Searches != 2 || r.Usage.Output != 1 {
			t.Errorf("%s: %+v", body, r.Usage)
		}
	}
}
