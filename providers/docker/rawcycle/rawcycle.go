// Package rawcycle does what a trial needs with bare Engine API calls and
// nothing else: the yardstick that benchmarks hold the product against.
package rawcycle

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

// Engine is a connection for cycles.
type Engine struct {
	cli   *client.Client
	image string
}

// Open connects to the engine of the environment.
func Open(image string) (*Engine, error) {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	return &Engine{cli: cli, image: image}, err
}

// Close ends the connection.
func (e *Engine) Close() error { return e.cli.Close() }

const (
	cycleExecs     = 3
	cycleUploads   = 2
	cycleDownloads = 3
)

// Cycle creates and starts a container, runs three commands, uploads twice,
// downloads three times and removes it.
func (e *Engine) Cycle(ctx context.Context) (err error) {
	made, err := e.cli.ContainerCreate(ctx, &container.Config{Image: e.image, Cmd: []string{"sleep", "infinity"}}, nil, nil, nil, "")
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer func() {
		rerr := e.cli.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true})
		if err == nil {
			err = rerr
		}
	}()
	if err := e.cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	content, err := smallTar()
	if err != nil {
		return err
	}
	for range cycleExecs {
		if err := e.exec(ctx, made.ID); err != nil {
			return fmt.Errorf("exec: %w", err)
		}
	}
	for range cycleUploads {
		if err := e.cli.CopyToContainer(ctx, made.ID, "/tmp", bytes.NewReader(content), container.CopyToContainerOptions{}); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
	}
	for range cycleDownloads {
		r, _, err := e.cli.CopyFromContainer(ctx, made.ID, "/tmp")
		if err != nil {
			return fmt.Errorf("download: %w", err)
		}
		_, err = io.Copy(io.Discard, r)
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("download: %w", err)
		}
	}
	return nil
}

func (e *Engine) exec(ctx context.Context, id string) error {
	x, err := e.cli.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: []string{"true"}, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err
	}
	a, err := e.cli.ContainerExecAttach(ctx, x.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer a.Close()
	if _, err := io.Copy(io.Discard, a.Reader); err != nil {
		return err
	}
	_, err = e.cli.ContainerExecInspect(ctx, x.ID)
	return err
}

func smallTar() ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	body := []byte("#!/bin/sh\nexit 0\n")
	if err := w.WriteHeader(&tar.Header{Name: "script.sh", Mode: 0o755, Size: int64(len(body))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	return b.Bytes(), w.Close()
}
