package app

import (
	"fmt"
	"maps"
	"slices"

	"harborgate/trials"
)

// modelCredentials are the variables under which model providers' keys are
// known. Their values never enter a sandbox in which an agent runs.
var modelCredentials = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY",
	"OPENROUTER_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "DEEPSEEK_API_KEY",
	"GROQ_API_KEY", "MISTRAL_API_KEY", "XAI_API_KEY", "TOGETHER_API_KEY", "TOGETHERAI_API_KEY", "FIREWORKS_API_KEY",
	"CEREBRAS_API_KEY", "COHERE_API_KEY", "PERPLEXITYAI_API_KEY", "MINIMAX_API_KEY", "MOONSHOT_API_KEY", "KIMI_API_KEY",
	"DASHSCOPE_API_KEY", "ZAI_API_KEY", "NVIDIA_API_KEY", "AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AI_GATEWAY_API_KEY",
	"VERCEL_AI_GATEWAY_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "LLM_API_KEY", "MSWEA_API_KEY",
}

// credentials keeps those of models from agents, or notes that they were passed.
// A verifier gets its own, after the agent is dead.
type credentials struct {
	lookup func(name string) (string, bool)
	pass   bool
}

// Guard implements runner.Credentials.
func (c credentials) Guard(phase trials.Phase, env map[string]string) (map[string]string, []trials.Note) {
	if phase == trials.PhaseVerifier {
		return env, nil
	}
	var notes []trials.Note
	out := maps.Clone(env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case !c.isCredential(name, env[name]):
		case c.pass:
			notes = append(notes, trials.Note{Code: "credential_passed", Message: fmt.Sprintf(
				"%s was put into the agent's sandbox because of --pass-credentials", name)})
		default:
			delete(out, name)
			notes = append(notes, trials.Note{Code: "credential_withheld", Message: fmt.Sprintf(
				"%s was not put into the agent's sandbox: model credentials stay on the host (--pass-credentials passes them)", name)})
		}
	}
	return out, notes
}

// isCredential goes by the name, and by the value: a key under another name is
// still the key.
func (c credentials) isCredential(name, value string) bool {
	if value == "" {
		return false
	}
	return slices.Contains(modelCredentials, name) || slices.ContainsFunc(modelCredentials, func(known string) bool {
		v, ok := c.lookup(known)
		return ok && v == value
	})
}
