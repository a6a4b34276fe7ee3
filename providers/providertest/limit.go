package providertest

import (
	"context"
	"fmt"
	"strings"

	"harborgate/providers"
)

func limitCases() []Case {
	return []Case{
		{"limit/memory-kills-the-command", []Need{NeedMemory}, limitMemory},
		{"limit/memory-death-of-a-child", []Need{NeedMemory}, limitMemoryChild},
		{"limit/processes", []Need{NeedPIDs}, limitPIDs},
		{"limit/zombies-are-reaped", nil, inSandbox(limitZombies)},
	}
}

// eat holds 400 MB in memory for as long as it takes to read them.
const eat = "head -c 400000000 /dev/zero | tail -c 400000000 > /dev/null"

func withMemory(s *providers.Spec) { s.Resources.MemoryMiB = 96 }

func limitMemory(ctx context.Context, e *Env) {
	sb := e.Create(ctx, withMemory)
	out := e.Sh(ctx, sb, eat)
	if out.Err != nil || out.Status.Code != 137 || !out.Status.OOMKilled {
		e.Errorf("want code 137 and a memory death, got %v, memory death %v", out, out.Status.OOMKilled)
	}
	next := e.Sh(ctx, sb, "echo alive")
	if next.Err != nil || next.Stdout != "alive\n" || next.Status.OOMKilled {
		e.Errorf("want the sandbox to live on and the next command to be no memory death, got %v, %+v", next, next.Status)
	}
}

func limitMemoryChild(ctx context.Context, e *Env) {
	sb := e.Create(ctx, withMemory)
	out := e.Sh(ctx, sb, "("+eat+"); echo covered; exit 0")
	if out.Err != nil || !out.Status.OK() || !out.Status.OOMKilled || out.Stdout != "covered\n" {
		e.Errorf("want code 0 and yet a memory death, got %v, memory death %v", out, out.Status.OOMKilled)
	}
}

func limitPIDs(ctx context.Context, e *Env) {
	sb := e.Create(ctx, func(s *providers.Spec) { s.Resources.PIDs = 64 })
	// The shell ends at the first fork that fails, so the last number counts.
	cmd := providers.Command{
		Args:          []string{"/bin/sh", "-c", "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); echo $i; done"},
		KillLeftovers: true,
	}
	out := e.Exec(ctx, sb, cmd)
	if out.Err != nil {
		e.Errorf("want an outcome, got %v", out)
	}
	if started := strings.Count(out.Stdout, "\n"); started >= 64 && !strings.Contains(out.Stderr, "ork") {
		e.Errorf("%d processes started under a limit of 64 without an error: %v", started, out)
	}
	e.Want(ctx, sb, "echo alive", "alive\n")
}

// limitZombies leaves many orphans; all must be gone from the process table.
func limitZombies(ctx context.Context, e *Env, sb providers.Sandbox) {
	const count = "set -- /proc/[0-9]*; echo $#"
	var before, after int
	e.scan(e.Must(ctx, sb, count), &before)
	e.Must(ctx, sb, "i=0; while [ $i -lt 200 ]; do (sleep 0.01 &); i=$((i+1)); done")
	e.Must(ctx, sb, "i=0; while [ $i -lt 300 ]; do "+count+" > /tmp/n; [ $(cat /tmp/n) -le "+fmt.Sprint(before+5)+" ] && exit; i=$((i+1)); sleep 0.02; done")
	e.scan(e.Must(ctx, sb, count), &after)
	if after > before+5 {
		e.Errorf("%d processes after 200 orphans, %d before", after, before)
	}
}

func (e *Env) scan(s string, into *int) {
	if _, err := fmt.Sscan(s, into); err != nil {
		e.Fatalf("%q is no number: %v", s, err)
	}
}
