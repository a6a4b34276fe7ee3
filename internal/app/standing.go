package app

import (
	"cmp"
	"slices"

	"harborgate/configs"
	"harborgate/internal/shares"
)

// Standing is what all harbor processes of this host have of a provider.
type Standing = shares.Standing

// ProviderStanding is what a provider may be asked for, and what all harbor processes
// of this host have of it at the moment.
type ProviderStanding struct {
	// Limits are those in force: of config.yaml, and where it has none what the provider's
	// host has, as far as running jobs know. Zero is none.
	Limits configs.Limits `json:"limits"`
	Standing
}

// Used are the providers where something of this host may be: those that are configured,
// and those of which something was had; docker when there is none.
func (a *App) Used() ([]string, error) {
	used, err := a.owner.Standings()
	if err != nil {
		return nil, err
	}
	var names []string
	for name, c := range a.Host.Providers {
		if _, built := drivers[c.Type]; built {
			names = append(names, name)
		}
	}
	for _, s := range used {
		if !slices.Contains(names, s.Provider) && slices.Contains(a.ProviderNames(), s.Provider) {
			names = append(names, s.Provider)
		}
	}
	if len(names) == 0 {
		return []string{"docker"}, nil
	}
	slices.Sort(names)
	return names, nil
}

// Standings says how providers stand: those that are configured, and those of which
// something was had. It asks none of them.
func (a *App) Standings() ([]ProviderStanding, error) {
	used, err := a.owner.Standings()
	if err != nil {
		return nil, err
	}
	out := []ProviderStanding{}
	for _, name := range a.ProviderNames() {
		s := shares.Nothing(name)
		if i := slices.IndexFunc(used, func(s Standing) bool { return s.Provider == name }); i >= 0 {
			s = used[i]
		}
		out = append(out, ProviderStanding{Limits: inForce(a.limits(name), s.Limits), Standing: s})
	}
	return out, nil
}

// inForce puts what running jobs hold themselves to in the place of what is configured:
// they know what the provider's host has.
func inForce(l configs.Limits, known shares.Amount) configs.Limits {
	l.CPUs, l.MemoryMiB = cmp.Or(known.CPUs, l.CPUs), cmp.Or(known.MemoryMiB, l.MemoryMiB)
	return l
}

// limits are what is configured of a provider, and the defaults of what is not.
func (a *App) limits(provider string) configs.Limits {
	l := a.Host.Providers[provider].Limits
	l.Builds, l.CreateBurst = cmp.Or(l.Builds, maxBuilds), cmp.Or(l.CreateBurst, 1)
	l.OvercommitCPUs, l.OutageSec = cmp.Or(l.OvercommitCPUs, 1), cmp.Or(l.OutageSec, outagePatience.Seconds())
	return l
}
