package docker

import (
	"context"
	"io"
	"net"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// engine lists the calls that this driver makes, in one place: what another
// client library would have to offer.
type engine interface {
	engineHost
	engineContainers
	engineExec
	engineImages
	engineLists
}

type engineHost interface {
	Ping(ctx context.Context) (types.Ping, error)
	Info(ctx context.Context) (system.Info, error)
	DaemonHost() string
	DialHijack(ctx context.Context, url, proto string, meta map[string][]string) (net.Conn, error)
	Close() error
}

type engineContainers interface {
	ContainerCreate(ctx context.Context, c *container.Config, h *container.HostConfig, n *network.NetworkingConfig, p *ocispec.Platform, name string) (container.CreateResponse, error)
	ContainerStart(ctx context.Context, id string, o container.StartOptions) error
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error
	ContainerWait(ctx context.Context, id string, cond container.WaitCondition) (<-chan container.WaitResponse, <-chan error)
	ContainerAttach(ctx context.Context, id string, o container.AttachOptions) (types.HijackedResponse, error)
	ContainerCommit(ctx context.Context, id string, o container.CommitOptions) (container.CommitResponse, error)
	CopyToContainer(ctx context.Context, id, path string, tar io.Reader, o container.CopyToContainerOptions) error
}

type engineExec interface {
	ContainerExecCreate(ctx context.Context, id string, o container.ExecOptions) (container.ExecCreateResponse, error)
	ContainerExecAttach(ctx context.Context, execID string, o container.ExecAttachOptions) (types.HijackedResponse, error)
}

type engineImages interface {
	ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageList(ctx context.Context, o image.ListOptions) ([]image.Summary, error)
	ImagePull(ctx context.Context, ref string, o image.PullOptions) (io.ReadCloser, error)
	ImageRemove(ctx context.Context, id string, o image.RemoveOptions) ([]image.DeleteResponse, error)
	ImageLoad(ctx context.Context, tar io.Reader, o ...client.ImageLoadOption) (image.LoadResponse, error)
	ImageBuild(ctx context.Context, tar io.Reader, o build.ImageBuildOptions) (build.ImageBuildResponse, error)
}

type engineLists interface {
	ContainerList(ctx context.Context, o container.ListOptions) ([]container.Summary, error)
	NetworkList(ctx context.Context, o network.ListOptions) ([]network.Summary, error)
	NetworkRemove(ctx context.Context, id string) error
	VolumeList(ctx context.Context, o volume.ListOptions) (volume.ListResponse, error)
	VolumeRemove(ctx context.Context, id string, force bool) error
}
