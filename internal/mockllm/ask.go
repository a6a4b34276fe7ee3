package mockllm

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// form is a wire format.
type form struct {
	ending string // of the path
	result string // in the body once a tool has answered
	whole  func(*answer) any
	events func(*answer) [][]byte
	fail   func(status int, kind, message string) any
	oops   func(message string) []byte // an error inside a stream
}

// forms are tried in order.
func forms() []form {
	return []form{
		{"/messages", `"tool_result"`, wholeMessage, messageEvents, failMessage, oopsMessage},
		{"/completions", `"role":"tool"`, wholeChat, chatEvents, failOpenAI, oopsChat},
		{"/responses", `_call_output"`, wholeResponse, responseEvents, failOpenAI, oopsResponse},
		{"/embeddings", "", wholeEmbedding, nil, failOpenAI, oopsChat},
		{"enerateContent", `"functionResponse"`, wholeGemini, geminiEvents, failGemini, oopsGemini},
	}
}

// ask is what the mock reads of a request.
type ask struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	answered bool     // a tool has run
	ending   string   // command by which the agent wants to be told that all is done
	tool     string   // the shell tool that is offered, if any
	argument string   // its parameter
	array    bool     // Gemini's stream without alt=sse
	required []string // further parameters that it insists on
}

// shells are the tools that agents offer, with the parameter that takes the command.
func shells() [][2]string {
	return [][2]string{
		{"Bash", "command"},
		{"bash", "command"},
		{"exec_command", "cmd"},
		{"run_shell_command", "command"},
		{"shell", "command"},
	}
}

// miniEnding ends a run of mini-swe-agent, which says so to the model.
const miniEnding = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

func readAsk(r Request, f form) ask {
	var a ask
	_ = json.Unmarshal(r.Body, &a)                                                                                     // a mock answers nonsense too
	compact := strings.NewReplacer(`": "`, `":"`, `"function_response"`, `"functionResponse"`).Replace(string(r.Body)) // LiteLLM's spelling
	a.answered = f.result != "" && strings.Contains(compact, f.result)
	a.tool, a.argument = "bash", "command"
	if strings.Contains(compact, miniEnding) {
		a.ending = miniEnding
	}
	i := slices.IndexFunc(shells(), func(s [2]string) bool {
		return strings.Contains(compact, `"name":"`+s[0]+`"`)
	})
	if i >= 0 {
		a.tool, a.argument = shells()[i][0], shells()[i][1]
		a.required = requiredOf(r.Body, a.tool, a.argument)
	}
	if model, method, ok := strings.Cut(path.Base(r.Path), ":"); ok {
		a.Model = model
		a.Stream = method == "streamGenerateContent"
		a.array = !strings.Contains(r.Query, "alt=sse")
	}
	return a
}

// requiredOf lists what the schema of a tool requires beside its command. It looks
// for the tool's object wherever a format keeps it.
func requiredOf(body []byte, tool, command string) []string {
	var doc any
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if v["name"] == tool && out == nil {
				out = namesOf(v, command)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(doc)
	return out
}

func namesOf(tool map[string]any, except string) []string {
	for _, key := range []string{"input_schema", "parameters", "parametersJsonSchema"} {
		schema, ok := tool[key].(map[string]any)
		if !ok {
			continue
		}
		list, _ := schema["required"].([]any)
		var out []string
		for _, e := range list {
			if s, ok := e.(string); ok && s != except {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// formOf finds the format of a path.
func formOf(p string) (form, bool) {
	for _, f := range forms() {
		if strings.HasSuffix(p, f.ending) {
			return f, true
		}
	}
	return form{}, false
}
