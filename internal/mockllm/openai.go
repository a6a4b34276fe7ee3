package mockllm

// created is the time that answers claim, so that they are the same bytes always.
const created = 1795989614

func (a *answer) chatUsage() object {
	u := a.usage()
	prompt := u.Input + u.CacheRead
	return object{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (a *answer) call() object {
	return object{"id": "call_" + a.id(), "type": "function", "index": 0, "function": object{
		"name": a.ask.tool, "arguments": string(mustJSON(a.arguments())),
	}}
}

func (a *answer) finish() string {
	if a.callsTool() {
		return "tool_calls"
	}
	return "stop"
}

func (a *answer) chat(kind string, choices []any) object {
	return object{"id": "chatcmpl-" + a.id(), "object": kind, "created": created, "model": a.model(), "choices": choices}
}

func wholeChat(a *answer) any {
	message := object{"role": "assistant", "content": a.text()}
	if a.callsTool() {
		message = object{"role": "assistant", "content": nil, "tool_calls": []any{a.call()}}
	}
	c := a.chat("chat.completion", []any{object{"index": 0, "message": message, "finish_reason": a.finish()}})
	if !a.step.NoUsage {
		c["usage"] = a.chatUsage()
	}
	return c
}

func chatEvents(a *answer) [][]byte {
	chunk := func(delta object, finish any) []byte {
		c := a.chat("chat.completion.chunk", []any{object{"index": 0, "delta": delta, "finish_reason": finish}})
		if a.ask.StreamOptions.IncludeUsage {
			c["usage"] = nil
		}
		return event("", c)
	}
	out := [][]byte{chunk(object{"role": "assistant", "content": nil}, nil)}
	if a.callsTool() {
		out = append(out, chunk(object{"tool_calls": []any{a.call()}}, nil))
	} else {
		for _, w := range a.words() {
			out = append(out, chunk(object{"content": w}, nil))
		}
	}
	out = append(out, chunk(object{}, a.finish()))
	if a.ask.StreamOptions.IncludeUsage && !a.step.NoUsage {
		c := a.chat("chat.completion.chunk", []any{})
		c["usage"] = a.chatUsage()
		out = append(out, event("", c))
	}
	return append(out, []byte("data: [DONE]\n\n"))
}

func wholeEmbedding(a *answer) any {
	return object{
		"object": "list", "model": a.model(),
		"data":  []any{object{"object": "embedding", "index": 0, "embedding": []float64{0.5, -0.5}}},
		"usage": object{"prompt_tokens": a.usage().Input, "total_tokens": a.usage().Input},
	}
}

func failOpenAI(_ int, kind, message string) any {
	return object{"error": object{"message": message, "type": kind, "param": nil, "code": kind}}
}

func oopsChat(message string) []byte {
	return event("", failOpenAI(0, "server_error", message))
}
