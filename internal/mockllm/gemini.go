package mockllm

import "bytes"

func (a *answer) candidate(parts []any, finish string) object {
	c := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	if finish != "" {
		c["finishReason"] = finish
	}
	g := object{"candidates": []any{c}, "modelVersion": a.model(), "responseId": a.id()}
	if !a.step.NoUsage {
		u := a.usage()
		g["usageMetadata"] = object{
			"promptTokenCount": u.Input + u.CacheRead, "cachedContentTokenCount": u.CacheRead,
			"candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning,
			"totalTokenCount": u.Input + u.CacheRead + u.Output,
		}
	}
	return g
}

func wholeGemini(a *answer) any {
	if a.callsTool() {
		return a.candidate([]any{object{"functionCall": object{"name": a.ask.tool, "args": a.arguments()}}}, "STOP")
	}
	return a.candidate([]any{object{"text": a.text()}}, "STOP")
}

func geminiEvents(a *answer) [][]byte {
	pieces := []any{wholeGemini(a)}
	if !a.callsTool() {
		pieces = nil
		words := a.words()
		for i, w := range words {
			finish := ""
			if i == len(words)-1 {
				finish = "STOP"
			}
			pieces = append(pieces, a.candidate([]any{object{"text": w}}, finish))
		}
	}
	var out [][]byte
	for i, p := range pieces {
		if !a.ask.array {
			out = append(out, event("", p))
			continue
		}
		start, end := ",\r\n", ""
		if i == 0 {
			start = "["
		}
		if i == len(pieces)-1 {
			end = "\n]\n"
		}
		out = append(out, bytes.Join([][]byte{[]byte(start), mustJSON(p), []byte(end)}, nil))
	}
	return out
}

func failGemini(status int, kind, message string) any {
	return object{"error": object{"code": status, "message": message, "status": kind}}
}

func oopsGemini(message string) []byte {
	return event("", failGemini(503, "UNAVAILABLE", message))
}
