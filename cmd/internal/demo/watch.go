// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// podWatch notes when each pod was first seen and when it first ran, by this
// machine's clock: the times in the objects have whole seconds only.
type podWatch struct {
	// stop ends the watch and returns when nothing of it runs any more.
	stop func()

	mu      sync.Mutex
	pods    map[string]*v1.Pod
	created map[string]time.Time
	running map[string]time.Time
}

// watchPods begins to watch the pods of the namespace, until stop is called.
func watchPods(ctx context.Context, client kubernetes.Interface) (*podWatch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &podWatch{pods: map[string]*v1.Pod{}, created: map[string]time.Time{}, running: map[string]time.Time{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	informer := factory.Core().V1().Pods().Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.saw(object) },
		UpdateFunc: func(_, object any) { w.saw(object) },
	})
	if err != nil {
		w.stop()
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		w.stop()
		return nil, fmt.Errorf("watching pods: %w", context.Cause(ctx))
	}
	return w, nil
}

func (w *podWatch) saw(object any) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[pod.Name] = pod
	if _, ok := w.created[pod.Name]; !ok {
		w.created[pod.Name] = now
	}
	if _, ok := w.running[pod.Name]; !ok && pod.Status.Phase == v1.PodRunning {
		w.running[pod.Name] = now
	}
}

// after returns how long the pod took from its creation until it ran.
func (w *podWatch) after(pod string) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	running, ok := w.running[pod]
	return running.Sub(w.created[pod]), ok
}

// settled waits until every expected pod runs, or has been refused by the
// scheduler if that is expected of it. The error names those that do not.
func (w *podWatch) settled(ctx context.Context, expected []expectation) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		unsettled := w.unsettled(expected)
		if len(unsettled) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for pods: %w\n  %s", ctx.Err(), strings.Join(unsettled, "\n  "))
		case <-ticker.C:
		}
	}
}

func (w *podWatch) unsettled(expected []expectation) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, want := range expected {
		pod := w.pods[want.pod]
		switch {
		case pod == nil:
			all = append(all, want.pod+" does not exist")
		case want.pending && pod.Spec.NodeName == "" && unschedulable(pod) == nil:
			all = append(all, want.pod+" has no answer of the scheduler")
		case !want.pending && pod.Status.Phase != v1.PodRunning:
			text := fmt.Sprintf("%s is %s", want.pod, pod.Status.Phase)
			if condition := unschedulable(pod); condition != nil {
				text += ": " + condition.Message
			}
			all = append(all, text)
		}
	}
	return all
}

// unschedulable returns the scheduler's answer when it could not place the pod.
func unschedulable(pod *v1.Pod) *v1.PodCondition {
	for i, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse && condition.Reason == v1.PodReasonUnschedulable {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
