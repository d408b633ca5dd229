// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
)

const capacityWorkers = 4

// capacityKey names one CSIStorageCapacity: what a class has in a segment.
type capacityKey struct {
	class   string
	segment string
}

// capacityPublisher keeps a CSIStorageCapacity object per segment and class of
// one driver. All classes of a driver draw from the same pools.
type capacityPublisher struct {
	client    kubernetes.Interface
	described profiles.Storage
	pools     *pools
	nodes     coreinformers.NodeInformer
	classes   storageinformers.StorageClassInformer
	queue     workqueue.TypedRateLimitingInterface[capacityKey]

	mu      sync.Mutex
	written map[capacityKey]bool
}

func newCapacityPublisher(client kubernetes.Interface, factory informers.SharedInformerFactory, described profiles.Storage, pools *pools) *capacityPublisher {
	p := &capacityPublisher{
		client:    client,
		described: described,
		pools:     pools,
		nodes:     factory.Core().V1().Nodes(),
		classes:   factory.Storage().V1().StorageClasses(),
		queue:     newQueue[capacityKey]("capacity"),
		written:   map[capacityKey]bool{},
	}
	// Registers the informers, so that they are started with the factory.
	p.nodes.Informer()
	p.classes.Informer()
	return p
}

// start begins to publish and returns at once.
func (p *capacityPublisher) start(ctx context.Context) error {
	_, err := p.nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.seen(object.(*corev1.Node)) },
		UpdateFunc: func(_, object any) { p.seen(object.(*corev1.Node)) },
	})
	if err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	_, err = p.classes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { p.appeared(object.(*storagev1.StorageClass)) },
	})
	if err != nil {
		return fmt.Errorf("watch storage classes: %w", err)
	}
	go work(ctx, p.queue, capacityWorkers, p.publish)
	return nil
}

func (p *capacityPublisher) seen(node *corev1.Node) {
	segment, labelled := node.Labels[p.described.TopologyKey]
	if labelled && p.pools.add(segment) {
		p.correct(segment)
	}
}

// changed says that what is free in the segment is not what was published. That
// is published after the delay that the profile asks for.
func (p *capacityPublisher) changed(segment string) {
	for _, class := range p.ownClasses() {
		p.queue.AddAfter(capacityKey{class: class, segment: segment}, p.described.ReportDelay.Duration)
	}
}

// correct publishes what is free in the segment now.
func (p *capacityPublisher) correct(segment string) {
	for _, class := range p.ownClasses() {
		p.queue.Add(capacityKey{class: class, segment: segment})
	}
}

// appeared publishes what a new class has.
func (p *capacityPublisher) appeared(class *storagev1.StorageClass) {
	if class.Provisioner != p.described.Driver {
		return
	}
	for _, segment := range p.pools.segments() {
		p.queue.Add(capacityKey{class: class.Name, segment: segment})
	}
}

func (p *capacityPublisher) ownClasses() []string {
	classes, err := p.classes.Lister().List(labels.Everything())
	if err != nil {
		// The lister reads from memory.
		panic(err)
	}
	var own []string
	for _, class := range classes {
		if class.Provisioner == p.described.Driver {
			own = append(own, class.Name)
		}
	}
	return own
}

func (p *capacityPublisher) publish(ctx context.Context, key capacityKey) error {
	objects := p.client.StorageV1().CSIStorageCapacities(metav1.NamespaceSystem)
	free := p.pools.freeIn(key.segment)
	object, err := objects.Get(ctx, key.objectName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = objects.Create(ctx, p.object(key, free), metav1.CreateOptions{})
	case err == nil && object.Capacity != nil && object.Capacity.Cmp(free) == 0:
	case err == nil:
		object.Capacity = &free
		object.MaximumVolumeSize = p.largestVolume(free)
		_, err = objects.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish capacity of class %s in %s: %w", key.class, key.segment, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written[key] = true
	return nil
}

func (p *capacityPublisher) object(key capacityKey, free resource.Quantity) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:        metav1.ObjectMeta{Name: key.objectName(), Namespace: metav1.NamespaceSystem},
		NodeTopology:      metav1.SetAsLabelSelector(labels.Set{p.described.TopologyKey: key.segment}),
		StorageClassName:  key.class,
		Capacity:          &free,
		MaximumVolumeSize: p.largestVolume(free),
	}
}

// largestVolume is never more than what is free.
func (p *capacityPublisher) largestVolume(free resource.Quantity) *resource.Quantity {
	largest := p.described.MaximumVolumeSize
	if largest == nil || largest.Cmp(free) < 0 {
		return largest
	}
	return &free
}

// published says whether there is an object for every class in every segment.
func (p *capacityPublisher) published() bool {
	segments := p.pools.segments()
	if len(segments) == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, class := range p.ownClasses() {
		for _, segment := range segments {
			if !p.written[capacityKey{class: class, segment: segment}] {
				return false
			}
		}
	}
	return true
}

// objectName is a valid name whatever characters the label value has.
func (k capacityKey) objectName() string {
	sum := sha256.Sum256([]byte(k.class + "\x00" + k.segment))
	return "csisc-" + hex.EncodeToString(sum[:5])
}
