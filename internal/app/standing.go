package app

import (
	"slices"

	"harborgate/configs"
	"harborgate/internal/shares"
)

// Standing is what all harbor processes of this host have of a provider.
type Standing = shares.Standing

// ProviderStanding is what a provider may be asked for, and what all harbor processes
// of this host have of it at the moment.
type ProviderStanding struct {
	Limits configs.Limits `json:"limits"` // of config.yaml; zero is none
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
	var out []ProviderStanding
	for _, name := range a.ProviderNames() {
		s := Standing{Provider: name}
		if i := slices.IndexFunc(used, func(s Standing) bool { return s.Provider == name }); i >= 0 {
			s = used[i]
		}
		out = append(out, ProviderStanding{Limits: a.Host.Providers[name].Limits, Standing: s})
	}
	return out, nil
}
