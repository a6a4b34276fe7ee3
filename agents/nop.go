package agents

import (
	"context"

	"harborgate/trials"
)

// nop does nothing: it shows what the environment alone is worth.
type nop struct{}

func (nop) Info() trials.AgentInfo { return trials.AgentInfo{Name: "nop", Version: "1.0.0"} }

func (nop) Setup(context.Context, *Workplace) error { return nil }

func (nop) Run(context.Context, *Workplace) (*trials.AgentResult, error) {
	return &trials.AgentResult{}, nil
}
