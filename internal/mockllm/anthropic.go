package mockllm

type object = map[string]any

func (a *answer) messageUsage(output int) object {
	u := a.usage()
	return object{
		"input_tokens": u.Input, "cache_read_input_tokens": u.CacheRead,
		"cache_creation_input_tokens": u.CacheWrite,
		"cache_creation":              object{"ephemeral_5m_input_tokens": u.CacheWrite, "ephemeral_1h_input_tokens": 0},
		"output_tokens":               output, "service_tier": "standard",
	}
}

func (a *answer) message(content []any, stop any, output int) object {
	m := object{
		"id": "msg_" + a.id(), "type": "message", "role": "assistant", "model": a.model(),
		"content": content, "stop_reason": stop, "stop_sequence": nil,
	}
	if !a.step.NoUsage {
		m["usage"] = a.messageUsage(output)
	}
	return m
}

func (a *answer) stopReason() string {
	if a.callsTool() {
		return "tool_use"
	}
	return "end_turn"
}

func wholeMessage(a *answer) any {
	block := object{"type": "text", "text": a.text()}
	if a.callsTool() {
		block = object{"type": "tool_use", "id": "toolu_" + a.id(), "name": a.ask.tool, "input": a.arguments()}
	}
	return a.message([]any{block}, a.stopReason(), a.usage().Output)
}

func messageEvents(a *answer) [][]byte {
	block := object{"type": "text", "text": ""}
	var deltas []object
	if a.callsTool() {
		block = object{"type": "tool_use", "id": "toolu_" + a.id(), "name": a.ask.tool, "input": object{}}
		deltas = append(deltas, object{"type": "input_json_delta", "partial_json": string(mustJSON(a.arguments()))})
	} else {
		for _, w := range a.words() {
			deltas = append(deltas, object{"type": "text_delta", "text": w})
		}
	}
	out := [][]byte{
		event("message_start", object{"type": "message_start", "message": a.message([]any{}, nil, 1)}),
		event("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": block}),
	}
	for _, d := range deltas {
		out = append(out, event("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": d}))
	}
	end := object{"type": "message_delta", "delta": object{"stop_reason": a.stopReason(), "stop_sequence": nil}}
	if !a.step.NoUsage {
		end["usage"] = object{"output_tokens": a.usage().Output}
	}
	return append(out,
		event("content_block_stop", object{"type": "content_block_stop", "index": 0}),
		event("message_delta", end),
		event("message_stop", object{"type": "message_stop"}))
}

func failMessage(_ int, kind, message string) any {
	return object{"type": "error", "error": object{"type": kind, "message": message}, "request_id": "req_mock"}
}

func oopsMessage(message string) []byte {
	return event("error", failMessage(0, "overloaded_error", message))
}
