package wire

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Reason is why the proxy itself answers with an error. It is the value of the
// header Marker.
type Reason string

// The reasons.
const (
	NoGrant     Reason = "grant"                // no token, or one that is unknown, revoked, expired
	NoBudget    Reason = "budget"               // used up
	Forbidden   Reason = "forbidden"            // not this grant's upstream or model
	Unlisted    Reason = "not_found"            // no such route
	WrongMethod Reason = "method"               // not this one
	Upgrade     Reason = "upgrade"              // a WebSocket or another protocol
	Invalid     Reason = "invalid"              // cannot be read, or in two ways
	TooLarge    Reason = "too_large"            //
	Busy        Reason = "rate_limit"           // a limit of ours, or of the provider
	NotReady    Reason = "not_ready"            // no configuration yet, or stopping
	KeyRefused  Reason = "upstream_credential"  // the provider refuses our keys
	Down        Reason = "upstream_unavailable" // the provider cannot be reached
	BadAnswer   Reason = "upstream_answer"      // it answers what cannot be passed on
	Internal    Reason = "internal"             //
)

// Marker is the header of every answer that the proxy makes itself.
const Marker = "X-Harborgate-Refused"

// Style says how an error is written: agents stop, wait or try again by path.
type Style int

// The styles. StylePlain is for paths of no format.
const (
	StylePlain Style = iota
	StyleMessages
	StyleChat
	StyleResponses
	StyleGemini
)

// StyleOf guesses from a path how its client wants errors. It works for paths that
// nobody serves, too.
func StyleOf(path string) Style {
	switch {
	case strings.Contains(path, "/messages"), strings.HasPrefix(path, "/anthropic/"):
		return StyleMessages
	case strings.Contains(path, "/responses"):
		return StyleResponses
	case strings.Contains(path, "/models/") && strings.Contains(path, ":"), strings.HasPrefix(path, "/gemini/"):
		return StyleGemini
	case strings.Contains(path, "/completions"), strings.Contains(path, "/embeddings"):
		return StyleChat
	}
	return StylePlain
}

// said is the status and the words of a refusal in one style.
type said struct {
	status int
	kind   string // type, or status for Gemini
	code   string // OpenAI only
}

// words is the table of refusals. What must end an agent at once differs by
// path, because no status ends all of them, and some go by the type, too: see
// docs/auth-proxy.md.
func words(r Reason, s Style) said {
	row, ok := table()[r]
	if !ok {
		row = table()[Internal]
	}
	return row[s]
}

func table() map[Reason][5]said {
	return map[Reason][5]said{
		// plain, Messages, Chat, Responses, Gemini
		NoGrant:     {{401, "authentication_error", "invalid_api_key"}, {401, "authentication_error", ""}, {401, "invalid_request_error", "invalid_api_key"}, {400, "invalid_request_error", "invalid_api_key"}, {401, "UNAUTHENTICATED", ""}},
		NoBudget:    {{402, "insufficient_quota", "insufficient_quota"}, {402, "billing_error", ""}, {401, "insufficient_quota", "insufficient_quota"}, {400, "insufficient_quota", "insufficient_quota"}, {402, "RESOURCE_EXHAUSTED", ""}},
		KeyRefused:  {{503, "server_error", "upstream_credential"}, {402, "billing_error", ""}, {401, "invalid_request_error", "upstream_credential"}, {400, "invalid_request_error", "upstream_credential"}, {402, "FAILED_PRECONDITION", ""}},
		Forbidden:   {{403, "permission_error", "forbidden"}, {403, "permission_error", ""}, {400, "invalid_request_error", "model_not_found"}, {400, "invalid_request_error", "model_not_found"}, {403, "PERMISSION_DENIED", ""}},
		Unlisted:    {{404, "not_found_error", "not_found"}, {404, "not_found_error", ""}, {404, "invalid_request_error", "not_found"}, {404, "invalid_request_error", "not_found"}, {404, "NOT_FOUND", ""}},
		WrongMethod: same(405, "invalid_request_error", "method_not_allowed", "INVALID_ARGUMENT"),
		Upgrade:     same(426, "invalid_request_error", "upgrade_not_served", "INVALID_ARGUMENT"),
		Invalid:     same(400, "invalid_request_error", "invalid_request", "INVALID_ARGUMENT"),
		TooLarge:    {{413, "request_too_large", "request_too_large"}, {413, "request_too_large", ""}, {413, "invalid_request_error", "request_too_large"}, {413, "invalid_request_error", "request_too_large"}, {413, "INVALID_ARGUMENT", ""}},
		Busy:        {{429, "rate_limit_error", "rate_limit_exceeded"}, {429, "rate_limit_error", ""}, {429, "requests", "rate_limit_exceeded"}, {429, "requests", "rate_limit_exceeded"}, {429, "RESOURCE_EXHAUSTED", ""}},
		NotReady:    same(503, "api_error", "not_ready", "UNAVAILABLE"),
		Down:        same(503, "api_error", "upstream_unavailable", "UNAVAILABLE"),
		BadAnswer:   same(502, "api_error", "upstream_answer", "INTERNAL"),
		Internal:    same(500, "api_error", "internal", "INTERNAL"),
	}
}

// same is a row whose styles differ in words only.
func same(status int, kind, code, gemini string) [5]said {
	s := said{status, kind, code}
	return [5]said{s, s, s, s, {status, gemini, ""}}
}

// final are the reasons after which no further try can help.
func final(r Reason) bool {
	switch r {
	case NoGrant, NoBudget, KeyRefused, Forbidden, Unlisted, WrongMethod, Invalid, TooLarge:
		return true
	}
	return false
}

// longestAsked is the longest wait that is asked of a client: one agent gives up
// when it is asked for a minute or more.
const longestAsked = 60 * time.Second

// Refusal is an answer of the proxy's own. Message is for the agent's user and
// holds nothing that came with the request.
type Refusal struct {
	Reason  Reason
	Message string
	After   time.Duration // when to try again, 0 is not said
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Message }

// Answer returns status, header and body of the refusal in a style.
func (r *Refusal) Answer(s Style, id string) (int, http.Header, []byte) {
	w := words(r.Reason, s)
	h := http.Header{"Content-Type": {"application/json"}, Marker: {string(r.Reason)}, "X-Request-Id": {id}}
	if final(r.Reason) {
		h["X-Should-Retry"] = []string{"false"}
	}
	message := "harborgate: " + r.Message
	if r.After > 0 {
		seconds := math.Ceil(min(r.After, longestAsked).Seconds())
		h["Retry-After"] = []string{strconv.Itoa(int(seconds))}
		message += ". Please try again in " + strconv.Itoa(int(seconds)) + "s"
	}
	return w.status, h, body(w, s, r, message, id)
}

func body(w said, s Style, r *Refusal, message, id string) []byte {
	type object = map[string]any
	var doc any
	switch s {
	case StyleMessages:
		doc = object{"type": "error", "error": object{"type": w.kind, "message": message, "source": "harborgate"}, "request_id": id}
	case StyleGemini:
		e := object{"code": w.status, "message": message, "status": w.kind, "source": "harborgate"}
		if r.After > 0 {
			e["details"] = []any{object{
				"@type":      "type.googleapis.com/google.rpc.RetryInfo",
				"retryDelay": strconv.Itoa(int(math.Ceil(r.After.Seconds()))) + "s",
			}}
		}
		doc = object{"error": e}
	default:
		doc = object{"error": object{"message": message, "type": w.kind, "param": nil, "code": w.code, "source": "harborgate"}}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err) // strings and numbers always have a form in JSON
	}
	return b
}
