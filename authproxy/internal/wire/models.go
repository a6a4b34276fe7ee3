package wire

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// Model is a model as an upstream lists it.
type Model struct {
	ID      string `json:"id"`
	Context int64  `json:"context,omitempty"`    // tokens that it takes; 0 is not said
	Output  int64  `json:"max_output,omitempty"` // tokens of an answer at most; 0 is not said
}

// ModelList is where a dialect lists its models, all of them on one page.
func ModelList(d Dialect) (path, query string) {
	switch d {
	case Anthropic:
		return "/v1/models", "limit=1000"
	case Gemini:
		return "/v1beta/models", "pageSize=1000"
	case OpenAI, OpenRouter:
	}
	return "/v1/models", ""
}

// mostModels is how many models are read of a list.
const mostModels = 5000

// ReadModels reads the answer of a list: the models that can be asked for text, in
// order of their names.
func ReadModels(body []byte) ([]Model, error) {
	list := gjson.GetBytes(body, "data")
	if !list.IsArray() {
		list = gjson.GetBytes(body, "models")
	}
	if !gjson.ValidBytes(body) || !list.IsArray() {
		return nil, errors.New("the answer is no list of models")
	}
	var out []Model
	for _, m := range list.Array() {
		id := m.Get("id").String()
		if id == "" {
			id = strings.TrimPrefix(m.Get("name").String(), "models/")
		}
		if !isListed(id) || !generates(m) || len(out) == mostModels {
			continue
		}
		out = append(out, Model{
			ID:      id,
			Context: firstOf(m, "context_length", "max_input_tokens", "inputTokenLimit", "max_model_len"),
			Output:  firstOf(m, "top_provider.max_completion_tokens", "max_tokens", "outputTokenLimit"),
		})
	}
	slices.SortFunc(out, func(a, b Model) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Model) bool { return a.ID == b.ID }), nil
}

// isListed refuses names that nobody could write.
func isListed(id string) bool {
	const longest = 200
	return id != "" && len(id) <= longest && !strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// generates is about Gemini's list, which has models of every kind.
func generates(m gjson.Result) bool {
	methods := m.Get("supportedGenerationMethods")
	return !methods.IsArray() || slices.ContainsFunc(methods.Array(), func(r gjson.Result) bool { return r.String() == "generateContent" })
}

func firstOf(m gjson.Result, paths ...string) int64 {
	for _, p := range paths {
		if n := m.Get(p).Int(); n > 0 {
			return n
		}
	}
	return 0
}
