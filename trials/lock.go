package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// Schema versions of lock files.
const (
	JobLockSchema   = 3
	TrialLockSchema = 2
)

// JobLock is a job's lock.json: Harbor's record of what was run, not a lock.
// Null members are left out.
type JobLock struct {
	SchemaVersion     int             `json:"schema_version"`
	CreatedAt         *Time           `json:"created_at"`
	Harbor            HarborInfo      `json:"harbor"`
	NConcurrentTrials int             `json:"n_concurrent_trials"`
	Retry             RetryConfig     `json:"retry"`
	Trials            List[TrialLock] `json:"trials"`
}

// HarborInfo says which program wrote a lock.
type HarborInfo struct {
	Version       string  `json:"version"`
	GitCommitHash *string `json:"git_commit_hash"`
	IsEditable    *bool   `json:"is_editable"`
}

// TrialLock is a trial's lock.json: everything that decides what it does.
type TrialLock struct {
	SchemaVersion int      `json:"schema_version"`
	Task          TaskLock `json:"task"`
	InstallOnly   bool     `json:"install_only"`
	Multipliers
	ExtraInstructions  []FileLock                  `json:"extra_instructions,omitempty"`
	Agent              AgentConfig                 `json:"agent"`
	UserAgent          *UserAgentConfig            `json:"user_agent"`
	BridgeInputs       Object[any]                 `json:"bridge_inputs"`
	Skills             List[SkillLock]             `json:"skills"`
	Environment        EnvironmentConfig           `json:"environment"`
	ExtraDockerCompose []FileLock                  `json:"extra_docker_compose,omitempty"`
	Verifier           VerifierLock                `json:"verifier"`
	Artifacts          List[ArtifactConfig]        `json:"artifacts"`
	OverridePolicy     Object[ErrorPolicyOverride] `json:"override_error_policy"`
	SourceTrial        *SourceTrialLock            `json:"source_trial"`
}

// TaskLock pins a task by the hash of its content.
type TaskLock struct {
	Name        string  `json:"name"`
	Version     *string `json:"version"`
	Type        string  `json:"type"`   // "local", "git" or "package"
	Digest      string  `json:"digest"` // "sha256:" and 64 hex digits
	Source      *string `json:"source"`
	Path        *string `json:"path"`
	GitURL      *string `json:"git_url"`
	GitCommitID *string `json:"git_commit_id"`
}

// FileLock pins a file by the hash of its content.
type FileLock struct {
	Path   *string `json:"path"`
	Digest string  `json:"digest"`
}

// SkillLock pins a skill.
type SkillLock struct {
	Name        string  `json:"name"`
	Source      string  `json:"source"`
	Digest      string  `json:"digest"`
	GitURL      *string `json:"git_url"`
	GitCommitID *string `json:"git_commit_id"`
}

// VerifierLock is the verifier's configuration and where it runs; null for a
// task with steps.
type VerifierLock struct {
	VerifierConfig
	EnvironmentMode *string `json:"environment_mode"`
}

// SourceTrialLock is the earlier trial and the task that it ran.
type SourceTrialLock struct {
	SourceTrial
	Task TaskLock `json:"task"`
}

// NewTrialLock records a trial of a task. mode is "" for a task with steps.
func NewTrialLock(task TaskLock, mode string, c TrialConfig) TrialLock {
	l := TrialLock{
		SchemaVersion:  TrialLockSchema,
		Task:           task,
		InstallOnly:    c.InstallOnly,
		Multipliers:    c.Multipliers,
		Agent:          c.Agent,
		UserAgent:      c.UserAgent,
		Environment:    c.Environment,
		Verifier:       VerifierLock{VerifierConfig: c.Verifier},
		Artifacts:      c.Artifacts,
		OverridePolicy: c.OverrideErrorPolicy,
	}
	if mode != "" {
		l.Verifier.EnvironmentMode = &mode
	}
	return l
}

// Lock says what kind of task this is, with the hash of its content (64 hex
// digits). name is that of the task, version that of its package.
func (t TaskConfig) Lock(name, version, contentHash string) TaskLock {
	l := TaskLock{
		Name: name, Type: "local", Digest: "sha256:" + contentHash,
		Source: t.Source, Path: t.Path, GitURL: t.GitURL, GitCommitID: t.GitCommitID,
	}
	if version != "" {
		l.Version = &version
	}
	switch {
	case t.GitURL != nil:
		l.Type = "git"
	case t.Name != nil:
		l.Type = "package"
	}
	return l
}

// MarshalLock prints a JobLock or TrialLock as Harbor does: four spaces, and
// members that are null left out.
func MarshalLock(lock any) ([]byte, error) { return marshalLock(lock, "") }

// WriteJobLock prints a JobLock as MarshalLock does, one trial after the other: they
// may be many. head is all but the trials.
func WriteJobLock(w io.Writer, head JobLock, all iter.Seq2[TrialLock, error]) error {
	const end = "]\n}"
	head.Trials = List[TrialLock]{}
	b, err := MarshalLock(head)
	if err != nil {
		return err
	}
	if _, err := w.Write(bytes.TrimSuffix(b, []byte(end))); err != nil {
		return err
	}
	between := "\n" + trialIndent
	for l, err := range all {
		if err != nil {
			return err
		}
		if b, err = marshalLock(l, trialIndent); err != nil {
			return err
		}
		if _, err := io.WriteString(w, between+string(b)); err != nil {
			return err
		}
		between = ",\n" + trialIndent
	}
	if between[0] == ',' {
		_, err = io.WriteString(w, "\n    "+end)
	} else {
		_, err = io.WriteString(w, end)
	}
	return err
}

// trialIndent is how far a trial stands in a job's lock.
const trialIndent = "        "

// marshalLock prints a lock whose lines but the first start with prefix.
func marshalLock(lock any, prefix string) ([]byte, error) {
	plain, err := marshalPlain(lock)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	var dense bytes.Buffer
	if err := copyWithoutNulls(&dense, dec); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, dense.Bytes(), prefix, "    "); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return out.Bytes(), nil
}

// copyWithoutNulls copies one value, keeping the order of members.
func copyWithoutNulls(w *bytes.Buffer, dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return writeToken(w, token)
	}
	w.WriteRune(rune(open))
	for first := true; dec.More(); {
		var member bytes.Buffer
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			if err := writeToken(&member, key); err != nil {
				return err
			}
			member.WriteByte(':')
		}
		start := member.Len()
		if err := copyWithoutNulls(&member, dec); err != nil {
			return err
		}
		if open == '{' && string(member.Bytes()[start:]) == "null" {
			continue
		}
		if !first {
			w.WriteByte(',')
		}
		first = false
		w.Write(member.Bytes())
	}
	end, err := dec.Token()
	if err != nil {
		return err
	}
	w.WriteRune(rune(end.(json.Delim)))
	return nil
}

func writeToken(w *bytes.Buffer, token json.Token) error {
	b, err := marshalPlain(token)
	w.Write(b)
	return err
}
