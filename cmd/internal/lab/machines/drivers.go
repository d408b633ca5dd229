// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
)

// drivers publishes the pools of all DRA drivers on all nodes, each through a
// controller of its own, as if it ran on its node.
type drivers struct {
	client kubernetes.Interface
	nodes  []profiles.Node

	mu         sync.Mutex
	publishers []publisher
}

// publisher is one driver on one node.
type publisher struct {
	controller *resourceslice.Controller
	slices     int64
}

func newDrivers(client kubernetes.Interface, nodes []profiles.Node) *drivers {
	return &drivers{client: client, nodes: nodes}
}

// run publishes until the context ends. It fails when the API server refuses
// the slices or would store other devices than the profile describes.
func (d *drivers) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range d.nodes {
		for _, pool := range node.Pools {
			// At once: each waits until it has read its part of the cluster.
			group.Go(func() error { return d.publish(ctx, node.Node.Name, pool) })
		}
	}
	return group.Wait()
}

func (d *drivers) publish(ctx context.Context, node string, pool profiles.Pool) error {
	refused := make(chan error, 1)
	controller, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName: pool.Driver,
		KubeClient: d.client,
		Owner:      &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: node},
		Resources: &resourceslice.DriverResources{
			Pools: map[string]resourceslice.Pool{node: {Slices: pool.Slices}},
		},
		ErrorHandler: func(ctx context.Context, err error, message string) {
			err = fmt.Errorf("driver %s on node %s: %s: %w", pool.Driver, node, message, err)
			if !isRefusal(err) {
				logError(ctx, err)
				return
			}
			select {
			case refused <- err:
			default:
			}
		},
	})
	if err != nil {
		return fmt.Errorf("start driver %s on node %s: %w", pool.Driver, node, err)
	}
	d.mu.Lock()
	d.publishers = append(d.publishers, publisher{controller: controller, slices: int64(len(pool.Slices))})
	d.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil
	case err := <-refused:
		return err
	}
}

// isRefusal says whether trying again is of no use: the slices are invalid, or
// have fields of a feature that the profile did not switch on.
func isRefusal(err error) bool {
	var dropped *resourceslice.DroppedFieldsError
	return apierrors.IsInvalid(err) || errors.As(err, &dropped)
}

// published says whether all slices of the profile have been created.
func (d *drivers) published() bool {
	pools := 0
	for _, node := range d.nodes {
		pools += len(node.Pools)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.publishers) < pools {
		return false
	}
	for _, publisher := range d.publishers {
		if publisher.controller.GetStats().NumCreates < publisher.slices {
			return false
		}
	}
	return true
}
