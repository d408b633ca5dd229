// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

const (
	// SucceedAfter is the annotation for how long a pod runs before it succeeds,
	// a Go duration.
	SucceedAfter = "lab.berth.dev/succeed-after"
	// Blocked is the condition of a pod that is bound to a node and cannot start.
	Blocked corev1.PodConditionType = "lab.berth.dev/Blocked"
)

const (
	hostIP         = "127.0.0.1"
	kubeletWorkers = 8
)

// kubelet runs the pods of all nodes. The pods it acts on come from one
// informer; the claims and volumes that a pod waits for are read from the API
// server, because a cache might be older than the binding of the pod.
type kubelet struct {
	client   kubernetes.Interface
	nodes    corelisters.NodeLister
	pods     corelisters.PodLister
	factory  informers.SharedInformerFactory
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	recorder record.EventRecorder
	events   record.EventBroadcaster
	// started counts the pods that were given an address.
	started atomic.Uint32
}

func newKubelet(ctx context.Context, client kubernetes.Interface, nodes corelisters.NodeLister) (*kubelet, error) {
	bound := fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.FieldSelector = bound }))
	pods := factory.Core().V1().Pods()
	events := record.NewBroadcaster(record.WithContext(ctx))
	k := &kubelet{
		client:   client,
		nodes:    nodes,
		pods:     pods.Lister(),
		factory:  factory,
		queue:    newQueue[cache.ObjectName]("pods"),
		recorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet"}),
		events:   events,
	}
	enqueue := func(object any) { k.queue.Add(cache.MetaObjectToName(object.(*corev1.Pod))) }
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return k, nil
}

func (k *kubelet) run(ctx context.Context) error {
	k.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.client.CoreV1().Events("")})
	defer k.events.Shutdown()
	k.factory.StartWithContext(ctx)
	if err := k.factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return fmt.Errorf("read pods: %w", err)
	}
	work(ctx, k.queue, kubeletWorkers, k.sync)
	return nil
}

// sync takes a pod one step further.
func (k *kubelet) sync(ctx context.Context, name cache.ObjectName) error {
	pod, err := k.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pod %s: %w", name, err)
	}
	node, err := k.nodes.Get(pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		// Nothing runs there. The pod garbage collector takes the pod away.
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", pod.Spec.NodeName, err)
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return k.terminate(ctx, pod)
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		return k.start(ctx, pod, node)
	case pod.Status.Phase == corev1.PodRunning:
		return k.finish(ctx, pod)
	}
	return nil
}

func (k *kubelet) start(ctx context.Context, pod *corev1.Pod, node *corev1.Node) error {
	missing, err := k.missing(ctx, pod, node)
	if err != nil {
		return err
	}
	if missing != nil {
		return k.block(ctx, pod, missing)
	}
	running := pod.DeepCopy()
	number := k.started.Add(1)
	setRunning(running, fmt.Sprintf("10.%d.%d.%d", byte(number>>16), byte(number>>8), byte(number)))
	if err := k.updateStatus(ctx, running); err != nil {
		return err
	}
	k.recorder.Event(running, corev1.EventTypeNormal, "Started", "Simulated containers started")
	return nil
}

// block tells everybody why the pod does not start, and tries again.
func (k *kubelet) block(ctx context.Context, pod *corev1.Pod, missing *obstacle) error {
	condition := corev1.PodCondition{
		Type: Blocked, Status: corev1.ConditionTrue, Reason: missing.reason, Message: missing.message,
	}
	blocked := pod.DeepCopy()
	if setCondition(&blocked.Status, condition) {
		if err := k.updateStatus(ctx, blocked); err != nil {
			return err
		}
		k.recorder.Event(pod, corev1.EventTypeWarning, missing.reason, missing.message)
	}
	return fmt.Errorf("pod %s/%s on node %s cannot start: %s: %w", pod.Namespace, pod.Name, pod.Spec.NodeName, missing.message, errNotYet)
}

// finish ends pods that run for a limited time.
func (k *kubelet) finish(ctx context.Context, pod *corev1.Pod) error {
	text, limited := pod.Annotations[SucceedAfter]
	if !limited {
		return nil
	}
	after, err := time.ParseDuration(text)
	if err != nil {
		k.recorder.Eventf(pod, corev1.EventTypeWarning, "InvalidAnnotation", "Annotation %s: %v", SucceedAfter, err)
		return nil
	}
	if left := time.Until(startOf(pod).Add(after)); left > 0 {
		k.queue.AddAfter(cache.MetaObjectToName(pod), left)
		return nil
	}
	succeeded := pod.DeepCopy()
	setTerminated(succeeded, corev1.PodSucceeded, exitSuccess)
	return k.updateStatus(ctx, succeeded)
}

// terminate ends the containers of a deleted pod and confirms that they are
// gone.
func (k *kubelet) terminate(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		// Confirmed before. Somebody else's finalizer keeps the object.
		return nil
	}
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		failed := pod.DeepCopy()
		setTerminated(failed, corev1.PodFailed, exitKilled)
		if err := k.updateStatus(ctx, failed); err != nil {
			return err
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("confirm deletion of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (k *kubelet) updateStatus(ctx context.Context, pod *corev1.Pod) error {
	_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
