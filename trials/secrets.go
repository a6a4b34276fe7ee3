package trials

import (
	"regexp"
	"slices"
	"strings"

	"harborgate/tasks"
)

// sensitivePattern is Harbor's; TOKENS, a count, is taken out before it is
// applied because the grammar has no look-ahead.
var sensitivePattern = regexp.MustCompile(`KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|AUTH`)

// Sensitive reports whether a variable of this name holds a secret.
func Sensitive(name string) bool {
	return sensitivePattern.MatchString(strings.ReplaceAll(strings.ToUpper(name), "TOKENS", ""))
}

// RedactEnv returns env as it may be written to disk. Templates and harmless
// names stay; a secret that equals the host's variable of the same name becomes
// ${NAME}; any other is cut to its ends. also names further secrets.
func RedactEnv(env Env, lookup func(string) (string, bool), also ...string) Env {
	if env == nil {
		return nil
	}
	out := make(Env, len(env))
	for name, value := range env {
		secret := Sensitive(name) || slices.Contains(also, name)
		switch host, ok := lookup(name); {
		case !secret || tasks.IsTemplate(value):
			out[name] = value
		case ok && host == value:
			out[name] = "${" + name + "}"
		default:
			out[name] = redactValue(value)
		}
	}
	return out
}

// RedactionMark stands where part of a secret was.
const RedactionMark = "****"

func redactValue(s string) string {
	r := []rune(s)
	if len(r) <= 8 {
		return RedactionMark
	}
	return string(r[:4]) + RedactionMark + string(r[len(r)-3:])
}

// Redacted returns the configuration as it may be written to disk. lookup reads
// the host's environment.
func (c JobConfig) Redacted(lookup func(string) (string, bool)) JobConfig {
	c.Agents = slices.Clone(c.Agents)
	for i := range c.Agents {
		c.Agents[i] = c.Agents[i].redacted(lookup)
	}
	c.UserAgent = c.UserAgent.redacted(lookup)
	c.Environment.Env = RedactEnv(c.Environment.Env, lookup)
	c.Verifier.Env = RedactEnv(c.Verifier.Env, lookup)
	return c
}

// Redacted returns the configuration as it may be written to disk.
func (c TrialConfig) Redacted(lookup func(string) (string, bool)) TrialConfig {
	c.Agent = c.Agent.redacted(lookup)
	c.UserAgent = c.UserAgent.redacted(lookup)
	c.Environment.Env = RedactEnv(c.Environment.Env, lookup)
	c.Verifier.Env = RedactEnv(c.Verifier.Env, lookup)
	return c
}

// Redacted returns the lock as it may be written to disk.
func (l TrialLock) Redacted(lookup func(string) (string, bool)) TrialLock {
	l.Agent = l.Agent.redacted(lookup)
	l.UserAgent = l.UserAgent.redacted(lookup)
	l.Environment.Env = RedactEnv(l.Environment.Env, lookup)
	l.Verifier.Env = RedactEnv(l.Verifier.Env, lookup)
	return l
}

func (a AgentConfig) redacted(lookup func(string) (string, bool)) AgentConfig {
	a.Env = RedactEnv(a.Env, lookup, deref(a.ModelAPIKeyName))
	return a
}

func (u *UserAgentConfig) redacted(lookup func(string) (string, bool)) *UserAgentConfig {
	if u == nil {
		return nil
	}
	out := *u
	out.AgentConfig = u.AgentConfig.redacted(lookup)
	return &out
}
