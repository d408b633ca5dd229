// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
)

// A lease is renewed as often as kubelets do it, and lasts as long.
const (
	leaseDuration = 40 * time.Second
	leaseInterval = 10 * time.Second
)

// registrar does for every Node object what its kubelet would do when it
// registers: lease, conditions and CSI drivers.
type registrar struct {
	client  kubernetes.Interface
	nodes   corelisters.NodeLister
	storage []profiles.Storage
	queue   workqueue.TypedRateLimitingInterface[string]
}

func newRegistrar(client kubernetes.Interface, nodes coreinformers.NodeInformer, storage []profiles.Storage) (*registrar, error) {
	r := &registrar{client: client, nodes: nodes.Lister(), storage: storage, queue: newQueue[string]("nodes")}
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { r.queue.Add(object.(*corev1.Node).Name) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	return r, nil
}

func (r *registrar) run(ctx context.Context) error {
	go wait.UntilWithContext(ctx, r.renewLeases, leaseInterval)
	work(ctx, r.queue, 4, r.register)
	return nil
}

func (r *registrar) register(ctx context.Context, name string) error {
	node, err := r.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", name, err)
	}
	if err := r.createLease(ctx, node); err != nil {
		return err
	}
	if err := r.createCSINode(ctx, node); err != nil {
		return err
	}
	if len(node.Status.Conditions) > 0 {
		return nil
	}
	node = node.DeepCopy()
	describeKubelet(node)
	if _, err := r.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("make node %s ready: %w", name, err)
	}
	return nil
}

func (r *registrar) createLease(ctx context.Context, node *corev1.Node) error {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: ownedBy(node)},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &node.Name,
			LeaseDurationSeconds: ptr.To(int32(leaseDuration.Seconds())),
			RenewTime:            ptr.To(metav1.NowMicro()),
		},
	}
	_, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create lease of node %s: %w", node.Name, err)
	}
	return nil
}

func (r *registrar) createCSINode(ctx context.Context, node *corev1.Node) error {
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name, OwnerReferences: ownedBy(node),
		Annotations: map[string]string{corev1.MigratedPluginsAnnotationKey: migratedPlugins},
	}}
	for _, storage := range r.storage {
		csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{
			Name: storage.Driver, NodeID: node.Name, TopologyKeys: []string{storage.TopologyKey},
		})
	}
	_, err := r.client.StorageV1().CSINodes().Create(ctx, csiNode, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create CSINode %s: %w", node.Name, err)
	}
	return nil
}

func (r *registrar) renewLeases(ctx context.Context) {
	nodes, err := r.nodes.List(labels.Everything())
	if err != nil {
		logError(ctx, fmt.Errorf("list nodes: %w", err))
		return
	}
	leases := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for _, node := range nodes {
		lease, err := leases.Get(ctx, node.Name, metav1.GetOptions{})
		if err == nil {
			lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
			_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			logError(ctx, fmt.Errorf("renew lease of node %s: %w", node.Name, err))
		}
	}
}

func ownedBy(node *corev1.Node) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
}

// describeKubelet sets what a kubelet reports of itself and of a healthy node.
func describeKubelet(node *corev1.Node) {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	node.Status.Conditions = []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
	}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: hostIP},
		{Type: corev1.NodeHostName, Address: node.Name},
	}
	node.Status.NodeInfo.KubeletVersion = "v1.37.2-lab"
	node.Status.NodeInfo.OperatingSystem = "linux"
	node.Status.NodeInfo.Architecture = "amd64"
}
