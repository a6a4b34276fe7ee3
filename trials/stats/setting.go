package stats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harborgate/trials"
)

// Setting is a condition under which a trial ran. Where conditions differ between
// arms, so may rewards, and it is not the arms' doing.
type Setting struct {
	Name  string
	Value string
}

// digestSetting has another value for each task, so values are not shown.
const digestSetting = "task digest"

// SettingsOf lists the conditions of a trial that its result knows: the task's
// digest, effective time limits, changed resources, the version of the agent and
// the provider. What is not known is left out.
func SettingsOf(r *trials.Result) []Setting {
	var out []Setting
	add := func(name, value string) {
		if value != "" {
			out = append(out, Setting{name, value})
		}
	}
	add(digestSetting, r.TaskChecksum)
	if v := r.AgentInfo.Version; v != "unknown" {
		add("version of "+r.AgentInfo.Name, v)
	}
	env := r.Config.Environment
	add("CPUs", optional(env.OverrideCPUs))
	add("memory in MiB", optional(env.OverrideMemoryMiB))
	add("disk in MiB", optional(env.OverrideStorageMiB))
	add("GPUs", optional(env.OverrideGPUs))
	add("CPU policy", env.CPUEnforcementPolicy)
	add("memory policy", env.MemoryEnforcementPolicy)
	out = append(out, limits(r)...)
	if r.Harborgate != nil {
		add("provider", r.Harborgate.Provider)
	}
	return out
}

// asTask stands for a setting that was left to the task.
const asTask = "as the task"

func optional[T any](p *T) string {
	if p == nil {
		return asTask
	}
	return fmt.Sprint(*p)
}

// limits are the effective time limits, or what Harbor's files have instead: the
// factors that make them.
func limits(r *trials.Result) []Setting {
	var out []Setting
	if r.Harborgate != nil && len(r.Harborgate.Timeouts) > 0 {
		for _, phase := range slices.Sorted(maps.Keys(r.Harborgate.Timeouts)) {
			out = append(out, Setting{phase + " limit", limitText(r.Harborgate.Timeouts[phase].Seconds)})
		}
		return out
	}
	m := r.Config.Multipliers
	for _, f := range []struct {
		name  string
		value *trials.Float
	}{
		{"agent time factor", m.AgentTimeout}, {"verifier time factor", m.VerifierTimeout},
		{"agent setup time factor", m.AgentSetup}, {"environment time factor", m.EnvironmentBuild},
	} {
		out = append(out, Setting{f.name, strconv.FormatFloat(float64(*cmp.Or(f.value, &m.Timeout)), 'g', -1, 64)})
	}
	return out
}

func limitText(sec float64) string {
	if sec == 0 {
		return "none"
	}
	return strconv.FormatFloat(sec, 'g', -1, 64) + " s"
}

// Unlike is a setting that differs between two arms.
type Unlike struct {
	Setting string `json:"setting"`
	// A and B are the values, joined when attempts differ among themselves. They are
	// absent for digests, of which every task has its own.
	A     string   `json:"a,omitempty"`
	B     string   `json:"b,omitempty"`
	Tasks []string `json:"tasks"` // in which it differs, in order
}

// unlike compares the settings of tasks that both arms have results of. Settings
// that one side does not know are passed over.
func unlike(a, b map[taskKey]*outcome) []Unlike {
	found := map[Setting]map[string]*Unlike{} // by name and value of a, then by value of b
	for _, k := range union(a, b) {
		if a[k] == nil || b[k] == nil {
			continue
		}
		for name, x := range a[k].settings {
			y, known := b[k].settings[name]
			if !known || slices.Equal(x, y) {
				continue
			}
			u := Unlike{Setting: name, A: strings.Join(x, ", "), B: strings.Join(y, ", ")}
			if name == digestSetting {
				u.A, u.B = "", ""
			}
			at := Setting{name, u.A}
			if found[at] == nil {
				found[at] = map[string]*Unlike{}
			}
			if found[at][u.B] == nil {
				found[at][u.B] = &u
			}
			found[at][u.B].Tasks = append(found[at][u.B].Tasks, k.task)
		}
	}
	out := []Unlike{}
	for _, byB := range found {
		for _, u := range byB {
			out = append(out, *u)
		}
	}
	slices.SortFunc(out, func(x, y Unlike) int {
		return cmp.Or(cmp.Compare(x.Setting, y.Setting), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	return out
}

// Text says what differs, without the tasks.
func (u Unlike) Text() string {
	where := fmt.Sprintf(" in %d tasks", len(u.Tasks))
	if len(u.Tasks) == 1 {
		where = " in 1 task"
	}
	if u.A == "" && u.B == "" {
		return u.Setting + " differs" + where
	}
	return u.Setting + ": " + u.A + " against " + u.B + where
}
