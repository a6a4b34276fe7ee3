package wire

import (
	"slices"
	"strings"
	"testing"
)

func TestModelsOfEachDialect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want []Model
	}{
		"openai":     {`{"object":"list","data":[{"id":"gpt-b"},{"id":"gpt-a","owned_by":"x"},{"id":"gpt-a"}]}`, []Model{{ID: "gpt-a"}, {ID: "gpt-b"}}},
		"anthropic":  {`{"data":[{"type":"model","id":"claude-x","max_input_tokens":200000,"max_tokens":64000}],"has_more":false}`, []Model{{"claude-x", 200000, 64000}}},
		"gemini":     {`{"models":[{"name":"models/gemini-x","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":["generateContent"]},{"name":"models/embed","supportedGenerationMethods":["embedContent"]}]}`, []Model{{"gemini-x", 1048576, 65536}}},
		"openrouter": {`{"data":[{"id":"a/b","context_length":9,"top_provider":{"max_completion_tokens":4}}]}`, []Model{{"a/b", 9, 4}}},
		"vllm":       {`{"data":[{"id":"meta-llama/L","max_model_len":8192}]}`, []Model{{"meta-llama/L", 8192, 0}}},
		"odd names":  {`{"data":[{"id":"a b"},{"id":"a\u001bb"},{"id":""},{"id":7},{"x":1},{"id":"` + strings.Repeat("x", 300) + `"},{"id":"ok"}]}`, []Model{{ID: "7"}, {ID: "ok"}}},
		"none":       {`{"data":[]}`, nil},
	} {
		got, err := ReadModels([]byte(c.body))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "<html>", `{"error":{"message":"no"}}`, `{"data":{"id":"x"}}`, `{"data":[{"id":"x"}`} {
		if got, err := ReadModels([]byte(bad)); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

func FuzzReadModels(f *testing.F) {
	for _, seed := range []string{`{"data":[{"id":"a","context_length":-1}]}`, `{"models":[{"name":"models/b"}]}`, `{"data":[[],{},null,"x"]}`, "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, _ := ReadModels(body)
		for i, m := range got {
			if m.ID == "" || m.Context < 0 || m.Output < 0 || strings.ContainsAny(m.ID, " \n\x1b") || i > 0 && got[i-1].ID >= m.ID {
				t.Errorf("%+v", got)
			}
		}
	})
}
