package docker

import (
	"context"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"harborgate/providers"
)

// Ids of networks and volumes carry what they are; a container's id does not.
const (
	networkPrefix = "network:"
	volumePrefix  = "volume:"
)

// List returns containers, networks and volumes that carry our labels.
func (p *Provider) List(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	// An unlabelled resource is never ours, whatever the selector asks.
	args := labelFilter(sel.Labels)
	args.Add("label", providers.LabelOwner)
	var out []providers.Resource
	containers, err := p.engine.ContainerList(ctx, container.ListOptions{All: true, Filters: args})
	if err != nil {
		return nil, p.fail("list", "", err)
	}
	for _, c := range containers {
		name := ""
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		out = append(out, providers.Resource{
			ID: providers.ID(c.ID), Kind: providers.ResourceSandbox, Name: name,
			Labels: c.Labels, Created: time.Unix(c.Created, 0), State: c.State,
		})
	}
	networks, err := p.engine.NetworkList(ctx, network.ListOptions{Filters: args})
	if err != nil {
		return nil, p.fail("list", "", err)
	}
	for _, n := range networks {
		out = append(out, providers.Resource{
			ID: providers.ID(networkPrefix + n.ID), Kind: providers.ResourceNetwork, Name: n.Name,
			Labels: n.Labels, Created: n.Created,
		})
	}
	volumes, err := p.engine.VolumeList(ctx, volume.ListOptions{Filters: args})
	if err != nil {
		return nil, p.fail("list", "", err)
	}
	for _, v := range volumes.Volumes {
		created, _ := time.Parse(time.RFC3339, v.CreatedAt) // zero when the engine does not say
		out = append(out, providers.Resource{
			ID: providers.ID(volumePrefix + v.Name), Kind: providers.ResourceVolume, Name: v.Name,
			Labels: v.Labels, Created: created,
		})
	}
	return matching(out, sel), nil
}

func labelFilter(labels map[string]string) filters.Args {
	args := filters.NewArgs()
	for k, v := range labels {
		if v == "" {
			args.Add("label", k)
		} else {
			args.Add("label", k+"="+v)
		}
	}
	return args
}

func matching(all []providers.Resource, sel providers.Selector) []providers.Resource {
	var out []providers.Resource
	for _, r := range all {
		if sel.Matches(r.Name, r.Labels) {
			out = append(out, r)
		}
	}
	return out
}
