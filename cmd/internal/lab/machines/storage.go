// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
)

// provisionerThreads is more than a test has claims in a slow class.
const provisionerThreads = 64

// storage is one CSI driver with its provisioner: a pool of capacity per value
// of a node label, from which volumes are taken.
type storage struct {
	client      kubernetes.Interface
	described   profiles.Storage
	nodes       corelisters.NodeLister
	pools       *pools
	capacity    *capacityPublisher
	provisioner *controller.ProvisionController
}

// newStorage is for one goroutine, before any informer runs: to make a
// provisioner writes to client-go's scheme, which is not locked and which every
// answer of the API server is decoded with.
func newStorage(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory, described profiles.Storage) *storage {
	pools := newPools(described.Capacity)
	s := &storage{
		client:    client,
		described: described,
		nodes:     factory.Core().V1().Nodes().Lister(),
		pools:     pools,
		capacity:  newCapacityPublisher(client, factory, described, pools),
	}
	s.provisioner = controller.NewProvisionController(ctx, client, described.Driver, s,
		controller.LeaderElection(false),
		controller.Threadiness(provisionerThreads),
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 10*time.Second)),
	)
	return s
}

func (s *storage) published() bool { return s.capacity.published() }

func (s *storage) run(ctx context.Context) error {
	if err := s.createDriver(ctx); err != nil {
		return err
	}
	if err := s.capacity.start(ctx); err != nil {
		return err
	}
	s.provisioner.Run(ctx)
	return nil
}

func (s *storage) createDriver(ctx context.Context) error {
	driver := &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: s.described.Driver},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired:  ptr.To(false),
			StorageCapacity: ptr.To(true),
		},
	}
	_, err := s.client.StorageV1().CSIDrivers().Create(ctx, driver, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create CSIDriver %s: %w", driver.Name, err)
	}
	return nil
}

var _ controller.BlockProvisioner = &storage{}

// SupportsBlock says that volumes may be block devices.
func (s *storage) SupportsBlock(context.Context) bool { return true }

// Provision takes the volume from the pool that the selected node can reach,
// or without a selected node from the one that has most.
func (s *storage) Provision(ctx context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	claim := options.PVC
	if claim.Spec.Selector != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("driver %s provisions no volumes for a claim with a selector", s.described.Driver)
	}
	behaviour, err := behaviourOf(options.StorageClass)
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	if err := sleep(ctx, behaviour.delay); err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	switch {
	case concerns(behaviour.fail, options.SelectedNodeName):
		return nil, controller.ProvisioningFinished, fmt.Errorf("driver %s is told to fail for node %q", s.described.Driver, options.SelectedNodeName)
	case concerns(behaviour.refuse, options.SelectedNodeName):
		return nil, controller.ProvisioningReschedule, fmt.Errorf("driver %s is told to refuse node %q", s.described.Driver, options.SelectedNodeName)
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if largest := s.described.MaximumVolumeSize; largest != nil && size.Cmp(*largest) > 0 {
		return nil, controller.ProvisioningReschedule, fmt.Errorf("driver %s provisions at most %s in one volume, not %s", s.described.Driver, largest, &size)
	}
	segment, err := s.segment(options)
	if err != nil {
		return nil, controller.ProvisioningReschedule, err
	}
	if err := s.pools.take(segment, options.PVName, size); err != nil {
		// What was reported is out of date, and drivers correct that at once.
		s.capacity.correct(segment)
		return nil, controller.ProvisioningReschedule, fmt.Errorf("driver %s, %s=%s: %w", s.described.Driver, s.described.TopologyKey, segment, err)
	}
	s.capacity.changed(segment)
	return s.volume(options, segment, size), controller.ProvisioningFinished, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// segment chooses the pool, named by its value of the topology key.
func (s *storage) segment(options controller.ProvisionOptions) (string, error) {
	key := s.described.TopologyKey
	if options.SelectedNodeName == "" {
		nodes, err := s.nodes.List(labels.Everything())
		if err != nil {
			return "", fmt.Errorf("list nodes: %w", err)
		}
		segment, found := s.pools.largest(func(segment string) bool {
			reached := slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return node.Labels[key] == segment })
			return reached && allows(options.StorageClass, key, segment)
		})
		if !found {
			return "", fmt.Errorf("StorageClass %s allows no value of %s that a node has", options.StorageClass.Name, key)
		}
		return segment, nil
	}
	node, err := s.nodes.Get(options.SelectedNodeName)
	if err != nil {
		return "", fmt.Errorf("read selected node: %w", err)
	}
	segment, labelled := node.Labels[key]
	if !labelled {
		return "", fmt.Errorf("selected node %s has no label %s", node.Name, key)
	}
	if !allows(options.StorageClass, key, segment) {
		return "", fmt.Errorf("StorageClass %s does not allow %s=%s of selected node %s", options.StorageClass.Name, key, segment, node.Name)
	}
	return segment, nil
}

// allows follows the Go doc of StorageClass.allowedTopologies: the terms are
// ORed, the requirements of a term ANDed, and no term is no restriction.
func allows(class *storagev1.StorageClass, key, value string) bool {
	if len(class.AllowedTopologies) == 0 {
		return true
	}
	for _, term := range class.AllowedTopologies {
		matches := true
		for _, requirement := range term.MatchLabelExpressions {
			matches = matches && requirement.Key == key && slices.Contains(requirement.Values, value)
		}
		if matches {
			return true
		}
	}
	return false
}

func (s *storage) volume(options controller.ProvisionOptions, segment string, size resource.Quantity) *corev1.PersistentVolume {
	claim := options.PVC
	reclaim := corev1.PersistentVolumeReclaimDelete
	if options.StorageClass.ReclaimPolicy != nil {
		reclaim = *options.StorageClass.ReclaimPolicy
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: size},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			VolumeAttributesClassName:     claim.Spec.VolumeAttributesClassName,
			MountOptions:                  options.StorageClass.MountOptions,
			PersistentVolumeReclaimPolicy: reclaim,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: s.described.Driver, VolumeHandle: options.PVName,
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: s.described.TopologyKey, Operator: corev1.NodeSelectorOpIn, Values: []string{segment},
					}},
				}},
			}},
		},
	}
}

// Delete gives the volume back to its pool.
func (s *storage) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if segment, found := s.pools.giveBack(volume.Name); found {
		s.capacity.changed(segment)
	}
	return nil
}
