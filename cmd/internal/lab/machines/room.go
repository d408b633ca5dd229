// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
)

// setupWorkers bounds how many requests are made at once while nodes and
// volumes are created.
const setupWorkers = 16

// room is the machine room: all simulated machines of one lab.
type room struct {
	config  *rest.Config
	client  kubernetes.Interface
	profile *profiles.Profile
	nodes   []profiles.Node
}

func newRoom(config *rest.Config, profile *profiles.Profile, nodes []profiles.Node) (*room, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &room{config: config, client: client, profile: profile, nodes: nodes}, nil
}

// run creates what the profile describes, sets ready once all of it works, and
// simulates until the context ends or something in the profile turns out to be
// impossible.
func (r *room) run(ctx context.Context, ready *readiness) error {
	if err := createObjects(ctx, r.config, r.client, r.profile.Objects); err != nil {
		return err
	}
	if err := r.createNodesAndVolumes(ctx); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(r.client, 0)
	storages := r.storages(ctx, factory)
	registrar, err := newRegistrar(r.client, factory.Core().V1().Nodes(), r.profile.Storage)
	if err != nil {
		return err
	}
	kubelet, err := newKubelet(ctx, r.client, factory.Core().V1().Nodes().Lister())
	if err != nil {
		return err
	}

	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return registrar.run(ctx) })
	group.Go(func() error { return kubelet.run(ctx) })
	for _, storage := range storages {
		group.Go(func() error { return storage.run(ctx) })
	}
	drivers := newDrivers(r.client, r.nodes)
	group.Go(func() error { return drivers.run(ctx) })
	group.Go(func() error {
		if err := r.waitUntilReady(ctx, drivers, storages); err != nil {
			return err
		}
		ready.Store(true)
		klog.FromContext(ctx).Info("Machines are ready", "nodes", len(r.nodes))
		return nil
	})
	return group.Wait()
}

func (r *room) createNodesAndVolumes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(setupWorkers)
	for _, node := range r.nodes {
		group.Go(func() error {
			describeKubelet(node.Node)
			if _, err := r.client.CoreV1().Nodes().Create(ctx, node.Node, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", node.Node.Name, err)
			}
			return nil
		})
		for _, volume := range node.Volumes {
			group.Go(func() error {
				if _, err := r.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
					return fmt.Errorf("create volume %s: %w", volume.Name, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

func (r *room) storages(ctx context.Context, factory informers.SharedInformerFactory) []*storage {
	storages := make([]*storage, len(r.profile.Storage))
	for i, described := range r.profile.Storage {
		storages[i] = newStorage(ctx, r.client, factory, described)
	}
	return storages
}

func (r *room) waitUntilReady(ctx context.Context, drivers *drivers, storages []*storage) error {
	return wait.PollUntilContextCancel(ctx, 25*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if !drivers.published() {
			return false, nil
		}
		for _, storage := range storages {
			if !storage.published() {
				return false, nil
			}
		}
		nodesReady, err := r.nodesReady(ctx)
		if err != nil || !nodesReady {
			return false, err
		}
		return r.volumesAvailable(ctx)
	})
}

// nodesReady is false as long as the node lifecycle controller has not taken
// away the taint that every new node gets.
func (r *room) nodesReady(ctx context.Context) (bool, error) {
	nodes, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return false, fmt.Errorf("list nodes: %w", err)
	}
	if len(nodes.Items) < len(r.nodes) {
		return false, nil
	}
	for i := range nodes.Items {
		for _, taint := range nodes.Items[i].Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return false, nil
			}
		}
	}
	return true, nil
}

// volumesAvailable is false as long as the volume binder has not seen all
// static volumes.
func (r *room) volumesAvailable(ctx context.Context) (bool, error) {
	volumes, err := r.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return false, fmt.Errorf("list volumes: %w", err)
	}
	wanted := 0
	for _, node := range r.nodes {
		wanted += len(node.Volumes)
	}
	if len(volumes.Items) < wanted {
		return false, nil
	}
	for i := range volumes.Items {
		if phase := volumes.Items[i].Status.Phase; phase == "" || phase == corev1.VolumePending {
			return false, nil
		}
	}
	return true, nil
}
