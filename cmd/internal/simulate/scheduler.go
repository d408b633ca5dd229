// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulate runs the scheduler's own cycle on a snapshot of a cluster:
// all of kube-scheduler's default plugins and ours, built by kube-scheduler's
// own code, on the same kind of informer stores as in a cluster. Nothing that
// it does leaves the process: the API client behind it is an object tracker in
// memory, filled from the snapshot.
package simulate

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"

	"github.com/berth-scheduler/berth/cmd/internal/profile"
	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

// Scheduler is a scheduler that stands still: it has seen the whole snapshot
// and schedules nothing by itself. It may be asked about any number of pods.
type Scheduler struct {
	profile  framework.Framework
	explains explainers
	// preemptor finds pods to evict, which budgets may keep.
	preemptor *defaultpreemption.DefaultPreemption
	budgets   []*policyv1.PodDisruptionBudget
	stop      func()
}

// New builds a scheduler with one profile of the given name, in Berth's default
// configuration, over the snapshot. Close frees what it started.
func New(ctx context.Context, s *snapshot.Snapshot, profileName string) (*Scheduler, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	built, err := build(ctx, s, profileName)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("setting up a scheduler over the snapshot: %w", err)
	}
	built.stop = cancel
	return built, nil
}

// Close stops everything that New started. The scheduler cannot be used any more.
func (s *Scheduler) Close() { s.stop() }

func build(ctx context.Context, s *snapshot.Snapshot, profileName string) (*Scheduler, error) {
	config, err := profile.Default()
	if err != nil {
		return nil, err
	}
	profiles := []schedulerapi.KubeSchedulerProfile{config.Profiles[0]}
	profiles[0].SchedulerName = profileName

	client := fake.NewSimpleClientset(live(s)...)
	informers := upstream.NewInformerFactory(client, 0, nil)
	nodes := cache.NewEmptySnapshot()
	explains := explainers{}
	sched, err := upstream.New(ctx, client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		upstream.WithProfiles(profiles...),
		upstream.WithFrameworkOutOfTreeRegistry(explains.watch(profile.Registry())),
		upstream.WithNodeInfoSnapshot(nodes),
	)
	if err != nil {
		return nil, err
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return nil, err
	}
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), nodes); err != nil {
		return nil, err
	}
	built := &Scheduler{profile: sched.Profiles[profileName], explains: explains, budgets: s.PodDisruptionBudgets}
	if built.preemptor, err = preemptor(ctx, profiles[0], built.profile); err != nil {
		return nil, err
	}
	return built, nil
}

// live returns what a scheduler's informers would deliver. They select the pods
// that have not ended, which the object tracker cannot.
func live(s *snapshot.Snapshot) []runtime.Object {
	return slices.DeleteFunc(s.Objects(), func(object runtime.Object) bool {
		pod, ok := object.(*v1.Pod)
		return ok && (pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed)
	})
}
