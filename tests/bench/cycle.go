// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/plugin/deviceclaims"
	"github.com/berth-scheduler/berth/plugin/volumeclaims"
)

// What a pod costs a whole scheduler, with all default plugins: from PreFilter on
// every node to the node that is chosen, and Reserve. Then Unreserve, which makes
// room for the next turn and, like any other pod's placement, changes one node. The
// pods fit on no node, or on the last one only, so that every node is asked.
func init() {
	for _, c := range []struct {
		name string
		make func(nodes int) *wholeCluster
		fits bool
	}{
		{"no-claims", func(n int) *wholeCluster { return newWholeCluster(n).gpus(n) }, true},
		{"gpu-on-last", func(n int) *wholeCluster { return newWholeCluster(n).gpus(n - 1).wantGPUs(1) }, true},
		{"gpu-on-none", func(n int) *wholeCluster { return newWholeCluster(n).gpus(n).wantGPUs(1) }, false},
		{"gpus-two-short", func(n int) *wholeCluster { return newWholeCluster(n).gpus(0).wantGPUs(10) }, false},
		{"disk-on-last", func(n int) *wholeCluster { return newWholeCluster(n).disks(n - 1).wantDisk() }, true},
		{"disk-on-none", func(n int) *wholeCluster { return newWholeCluster(n).disks(n).wantDisk() }, false},
	} {
		for _, nodes := range []int{100, 1000} {
			register(fmt.Sprintf("cycle/%s-%d", c.name, nodes), "ms", func() (side, side, error) {
				return c.make(nodes).sides(c.fits)
			})
		}
	}
}

// wholeCluster is a cluster in memory and a pod that waits.
type wholeCluster struct {
	nodes   int
	objects []runtime.Object
	pod     *v1.Pod
}

func newWholeCluster(nodes int) *wholeCluster {
	c := &wholeCluster{nodes: nodes, pod: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pod", UID: "pod"},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "main", Image: "image"}}},
	}}
	for i := range nodes {
		n := storageNode(i)
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("512Gi"), v1.ResourcePods: resource.MustParse("110"),
		}
		c.add(n)
	}
	for _, class := range storageClasses() {
		c.add(class)
	}
	c.add(gpuClass(), storageDriver())
	return c
}

func (c *wholeCluster) add(objects ...runtime.Object) { c.objects = append(c.objects, objects...) }

// gpus gives each node eight GPUs, which one claim holds on the first full nodes.
func (c *wholeCluster) gpus(full int) *wholeCluster {
	for i := range c.nodes {
		c.add(gpuSlice(nodeName(i), 8, nil))
		if i >= full {
			continue
		}
		held := claim(fmt.Sprintf("held-%05d", i), []resourceapi.DeviceRequest{request("gpus", 8)})
		held.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "holder", UID: types.UID(held.Name)}}
		held.Status.Allocation = &resourceapi.AllocationResult{}
		for g := range 8 {
			held.Status.Allocation.Devices.Results = append(held.Status.Allocation.Devices.Results,
				resourceapi.DeviceRequestAllocationResult{Request: "gpus", Driver: driver, Pool: nodeName(i), Device: gpu(g).Name})
		}
		c.add(held)
	}
	return c
}

func (c *wholeCluster) wantGPUs(count int64) *wholeCluster {
	c.add(claim("wanted", []resourceapi.DeviceRequest{request("gpus", count)}))
	c.pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: ptr.To("wanted")}}
	return c
}

// disks gives each node four local volumes, which are too small for the pod on the
// first nodes.
func (c *wholeCluster) disks(small int) *wholeCluster {
	for i := range c.nodes {
		for j := range 4 {
			disk := localVolume(i, j)
			if i < small {
				disk.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("10Gi")
			}
			c.add(disk)
		}
	}
	return c
}

func (c *wholeCluster) wantDisk() *wholeCluster {
	c.add(storageClaim(0, localClass, "50Gi"))
	c.pod.Spec.Volumes = storagePod(1).Spec.Volumes
	return c
}

// sides are a turn of the in-tree plugins and one of ours.
func (c *wholeCluster) sides(fits bool) (theirs, ours side, err error) {
	client := fake.NewSimpleClientset(c.objects...)
	var turns []func()
	for _, replace := range []bool{false, true} {
		s, failed := newWholeScheduler(client, replace)
		if failed == nil {
			failed = s.turn(c.pod, fits)
		}
		err = errors.Join(err, failed)
		turns = append(turns, func() { _ = s.turn(c.pod, fits) })
	}
	return milliseconds(turns[0]), milliseconds(turns[1]), err
}

// wholeScheduler has seen a cluster and schedules nothing by itself.
type wholeScheduler struct {
	*scheduler.Scheduler
	profile framework.Framework
}

// newWholeScheduler makes kube-scheduler in its default configuration, with our
// plugins in place of the in-tree ones if replace is set. It lives as long as the
// process.
func newWholeScheduler(client kubernetes.Interface, replace bool) (*wholeScheduler, error) {
	cfg, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("make the default configuration: %w", err)
	}
	if replace {
		useOurs(&cfg.Profiles[0])
	}
	ctx := klog.NewContext(context.Background(), logr.Discard())
	informers, nodes := scheduler.NewInformerFactory(client, 0, nil), cache.NewEmptySnapshot()
	s, err := scheduler.New(ctx, client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(cfg.Profiles...), scheduler.WithNodeInfoSnapshot(nodes),
		scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			deviceclaims.Name: deviceclaims.New, volumeclaims.Name: volumeclaims.New,
		}))
	if err != nil {
		return nil, fmt.Errorf("make a scheduler: %w", err)
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return nil, fmt.Errorf("wait for the informers: %w", err)
	}
	if err := s.Cache.UpdateSnapshot(klog.FromContext(ctx), nodes); err != nil {
		return nil, fmt.Errorf("take the snapshot of the nodes: %w", err)
	}
	return &wholeScheduler{s, s.Profiles[v1.DefaultSchedulerName]}, nil
}

func useOurs(profile *config.KubeSchedulerProfile) {
	ours := map[string]string{names.DynamicResources: deviceclaims.Name, names.VolumeBinding: volumeclaims.Name}
	for i, plugin := range profile.Plugins.MultiPoint.Enabled {
		if name, ok := ours[plugin.Name]; ok {
			profile.Plugins.MultiPoint.Enabled[i].Name = name
		}
	}
}

// turn finds a node for the pod, reserves what it claims and gives it back.
func (s *wholeScheduler) turn(pod *v1.Pod, fits bool) error {
	ctx, state := klog.NewContext(context.Background(), logr.Discard()), framework.NewCycleState()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	result, err := s.SchedulePod(ctx, s.profile, state, &framework.QueuedPodInfo{PodInfo: info})
	var refused *framework.FitError
	switch {
	case errors.As(err, &refused) && !fits:
		return nil
	case err != nil:
		return fmt.Errorf("find a node: %w", err)
	case !fits:
		return fmt.Errorf("the pod fits on %s, and should not", result.SuggestedHost)
	}
	status := s.profile.RunReservePluginsReserve(ctx, state, pod, result.SuggestedHost)
	s.profile.RunReservePluginsUnreserve(ctx, state, pod, result.SuggestedHost)
	return status.AsError()
}
