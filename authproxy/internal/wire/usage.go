package wire

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Usage is what an answer used, in classes that do not overlap, except that Output
// holds Reasoning. The unit is tokens.
type Usage struct {
	Input          int64 `json:"input_tokens"` // neither read from nor written to a cache
	CacheRead      int64 `json:"cache_read_tokens"`
	CacheWrite     int64 `json:"cache_write_tokens"`                // kept for minutes
	CacheWriteLong int64 `json:"cache_write_long_tokens,omitempty"` // kept for an hour
	Output         int64 `json:"output_tokens"`
	Reasoning      int64 `json:"reasoning_tokens,omitempty"` // part of Output
	Searches       int64 `json:"searches,omitempty"`         // by the provider's own search tool; a number, no tokens
}

// Tokens is all of them.
func (u Usage) Tokens() int64 { return u.Prompt() + u.Output }

// Prompt is what went in, cached or not.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWriteLong }

// number is a count as an answer states it: absent, or not to be believed, is nil.
type number struct {
	v   *int64
	odd bool // stated, and not to be believed
}

// credible is the largest count that is believed.
const credible = 1 << 32

// UnmarshalJSON takes any number; what is negative, absurd or no number makes usage
// unknown, so that no upstream can lower what was used.
func (n *number) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	switch {
	case string(b) == "null":
	case err == nil && f >= 0 && f <= credible:
		v := int64(f)
		n.v = &v
	default:
		n.odd = true
	}
	return nil
}

func anyOdd(numbers ...number) bool {
	return slices.ContainsFunc(numbers, func(n number) bool { return n.odd })
}

func (n number) into(to *int64) {
	if n.v != nil {
		*to = *n.v
	}
}

func (n number) value() int64 {
	if n.v == nil {
		return 0
	}
	return *n.v
}

// stated is the usage object of Anthropic's and OpenAI's answers.
type stated struct {
	InputTokens   number `json:"input_tokens"`
	OutputTokens  number `json:"output_tokens"`
	CacheRead     number `json:"cache_read_input_tokens"`
	CacheCreation number `json:"cache_creation_input_tokens"`
	Creation      *struct {
		Short number `json:"ephemeral_5m_input_tokens"`
		Long  number `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	ServerTools *struct {
		Searches number `json:"web_search_requests"`
	} `json:"server_tool_use"`
	Tier string `json:"service_tier"`

	PromptTokens     number      `json:"prompt_tokens"`
	CompletionTokens number      `json:"completion_tokens"`
	TotalTokens      number      `json:"total_tokens"`
	PromptDetails    details     `json:"prompt_tokens_details"`
	InputDetails     details     `json:"input_tokens_details"`
	OutDetails       details     `json:"output_tokens_details"`
	ComplDetails     details     `json:"completion_tokens_details"`
	Cost             json.Number `json:"cost"`
}

type details struct {
	Cached    number `json:"cached_tokens"`
	Written   number `json:"cache_write_tokens"`
	Reasoning number `json:"reasoning_tokens"`
}

// metadata is the usage of a Gemini answer.
type metadata struct {
	Prompt     number `json:"promptTokenCount"`
	Cached     number `json:"cachedContentTokenCount"`
	Candidates number `json:"candidatesTokenCount"`
	Thoughts   number `json:"thoughtsTokenCount"`
	ToolPrompt number `json:"toolUsePromptTokenCount"`
}

// document is what is read of an answer, or of an event of one.
type document struct {
	Type         string    `json:"type"`
	ID           string    `json:"id"`
	Model        string    `json:"model"`
	ModelVersion string    `json:"modelVersion"`
	Tier         string    `json:"service_tier"`
	Usage        *stated   `json:"usage"`
	Metadata     *metadata `json:"usageMetadata"`
	Message      *document `json:"message"`
	Response     *document `json:"response"`
	Candidates   []struct {
		Finish    string `json:"finishReason"`
		Grounding *struct {
			Queries []json.RawMessage `json:"webSearchQueries"`
		} `json:"groundingMetadata"`
	} `json:"candidates"`
	Output []struct { // of a response
		Type string `json:"type"`
	} `json:"output"`
	Error  json.RawMessage `json:"error"`
	Status string          `json:"status"` // of a response
}

// take adds what a document says to the report. Later statements win, field by
// field: some gateways put zeros into the first event, others leave fields out of
// the last.
func (r *Report) take(f Format, d *document) {
	for _, inner := range []*document{d.Message, d.Response} {
		if inner != nil {
			r.take(f, inner)
		}
	}
	setNonEmpty(&r.Model, d.Model)
	setNonEmpty(&r.Model, d.ModelVersion)
	setNonEmpty(&r.Tier, d.Tier)
	setNonEmpty(&r.ID, d.ID)
	r.Usage.Searches = max(r.Usage.Searches, d.searches())
	if d.Metadata != nil {
		r.takeGemini(d.Metadata)
	}
	if d.Usage == nil {
		return
	}
	setNonEmpty(&r.Tier, d.Usage.Tier)
	setNonEmpty(&r.Cost, d.Usage.Cost.String())
	if f == Messages {
		r.takeAnthropic(d.Usage)
		return
	}
	r.takeOpenAI(d.Usage)
}

// searches are those that the document shows, where usage does not count them.
func (d *document) searches() int64 {
	n := 0
	for _, o := range d.Output {
		if o.Type == "web_search_call" {
			n++
		}
	}
	for _, c := range d.Candidates {
		if c.Grounding != nil {
			n += len(c.Grounding.Queries)
		}
	}
	return int64(n)
}

func setNonEmpty(to *string, s string) {
	if s != "" {
		*to = s
	}
}

func (r *Report) takeAnthropic(s *stated) {
	u := &r.Usage
	s.InputTokens.into(&u.Input)
	s.CacheRead.into(&u.CacheRead)
	s.OutputTokens.into(&u.Output)
	if s.CacheCreation.v != nil {
		u.CacheWrite, u.CacheWriteLong = *s.CacheCreation.v, 0
	}
	if s.Creation != nil && s.Creation.Short.v != nil {
		u.CacheWrite, u.CacheWriteLong = *s.Creation.Short.v, s.Creation.Long.value()
	}
	if s.ServerTools != nil {
		s.ServerTools.Searches.into(&u.Searches)
	}
	r.odd = r.odd || anyOdd(s.InputTokens, s.OutputTokens, s.CacheRead, s.CacheCreation) ||
		s.Creation != nil && anyOdd(s.Creation.Short, s.Creation.Long)
	r.InputKnown = r.InputKnown || s.InputTokens.v != nil
	r.outputKnown = r.outputKnown || s.OutputTokens.v != nil
	r.Known = r.InputKnown && r.outputKnown
}

func (r *Report) takeOpenAI(s *stated) {
	prompt, out := s.PromptTokens, s.CompletionTokens
	if prompt.v == nil {
		prompt, out = s.InputTokens, s.OutputTokens
	}
	r.odd = r.odd || anyOdd(s.PromptTokens, s.CompletionTokens, s.InputTokens, s.OutputTokens,
		s.PromptDetails.Cached, s.InputDetails.Cached, s.PromptDetails.Written, s.InputDetails.Written)
	if prompt.v == nil && out.v == nil {
		return
	}
	cached := max(s.PromptDetails.Cached.value(), s.InputDetails.Cached.value())
	written := max(s.PromptDetails.Written.value(), s.InputDetails.Written.value())
	r.Usage = Usage{
		Input:     max(0, prompt.value()-cached-written),
		CacheRead: cached, CacheWrite: written,
		Output:    out.value(),
		Reasoning: max(s.OutDetails.Reasoning.value(), s.ComplDetails.Reasoning.value()),
		Searches:  r.Usage.Searches,
	}
	r.Known, r.InputKnown = true, true
}

func (r *Report) takeGemini(m *metadata) {
	r.odd = r.odd || anyOdd(m.Prompt, m.Cached, m.Candidates, m.Thoughts, m.ToolPrompt)
	if m.Prompt.v == nil && m.Candidates.v == nil {
		return
	}
	cached := m.Cached.value()
	r.Usage = Usage{
		Input:     max(0, m.Prompt.value()-cached) + m.ToolPrompt.value(),
		CacheRead: cached,
		Output:    m.Candidates.value() + m.Thoughts.value(),
		Reasoning: m.Thoughts.value(),
		Searches:  r.Usage.Searches,
	}
	r.Known, r.InputKnown = true, true
}
