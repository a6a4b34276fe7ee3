package mockllm

func (a *answer) response(status string, output []any, usage any) object {
	return object{
		"id": "resp_" + a.id(), "object": "response", "created_at": created, "status": status,
		"model": a.model(), "output": output, "usage": usage,
	}
}

func (a *answer) responseUsage() any {
	if a.step.NoUsage {
		return nil
	}
	u := a.usage()
	input := u.Input + u.CacheRead
	return object{
		"input_tokens": input, "input_tokens_details": object{"cached_tokens": u.CacheRead},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning},
		"total_tokens": input + u.Output,
	}
}

func (a *answer) item(status string) object {
	if a.callsTool() {
		return object{
			"type": "function_call", "id": "fc_" + a.id(), "call_id": "call_" + a.id(),
			"name": a.ask.tool, "arguments": string(mustJSON(a.arguments())), "status": status,
		}
	}
	text := ""
	for _, w := range a.words() {
		text += w
	}
	return object{
		"type": "message", "id": "msg_" + a.id(), "role": "assistant", "status": status,
		"content": []any{object{"type": "output_text", "text": text, "annotations": []any{}}},
	}
}

func wholeResponse(a *answer) any {
	return a.response("completed", []any{a.item("completed")}, a.responseUsage())
}

func responseEvents(a *answer) [][]byte {
	var out [][]byte
	add := func(kind string, fields object) {
		fields["type"], fields["sequence_number"] = kind, len(out)
		out = append(out, event(kind, fields))
	}
	item := a.item("completed")
	add("response.created", object{"response": a.response("in_progress", []any{}, nil)})
	add("response.output_item.added", object{"output_index": 0, "item": a.item("in_progress")})
	if a.callsTool() {
		at := object{"item_id": item["id"], "output_index": 0, "delta": item["arguments"]}
		add("response.function_call_arguments.delta", at)
		add("response.function_call_arguments.done", object{"item_id": item["id"], "output_index": 0, "arguments": item["arguments"]})
	} else {
		for _, w := range a.words() {
			add("response.output_text.delta", object{"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": w})
		}
	}
	add("response.output_item.done", object{"output_index": 0, "item": item})
	add("response.completed", object{"response": wholeResponse(a)})
	return out
}

func oopsResponse(message string) []byte {
	return event("response.failed", object{"type": "response.failed", "response": object{
		"id": "resp_mock", "status": "failed",
		"error": object{"code": "server_error", "message": message},
	}})
}
