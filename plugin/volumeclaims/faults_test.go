// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/faults"
)

// A story is some pods on their way to node n1, which has four volumes of 1Gi and
// as much provisioned storage as they need. Whatever happens to them, one volume
// is left in the end.
type story struct {
	claims []*v1.PersistentVolumeClaim
	pods   []*v1.Pod
	// meddle is what others do between Reserve and PreBind of the first round.
	meddle func(*cluster)
}

var stories = map[string]func() story{
	"existing and new volumes, a shared claim": func() story {
		return story{
			claims: []*v1.PersistentVolumeClaim{claim("a", local), claim("b", local), claim("shared", local), claim("c", csi), claim("d", csi)},
			pods:   []*v1.Pod{pod("two", "a", "b"), pod("mixed", "shared", "c", "d"), pod("sharer", "shared")},
		}
	},
	"objects that change under the scheduler's feet": func() story {
		return story{
			claims: []*v1.PersistentVolumeClaim{claim("a", local), claim("b", local), claim("c", local), claim("d", csi)},
			pods:   []*v1.Pod{pod("first", "a", "b"), pod("second", "c", "d")},
			meddle: func(c *cluster) {
				c.updateClaim("a", func(claim *v1.PersistentVolumeClaim) { claim.Labels = map[string]string{"edited": "yes"} })
				c.updateClaim("c", func(claim *v1.PersistentVolumeClaim) { claim.UID = "c-again" })
				c.updateVolume("pv-1", func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = volumeOn("", "", "n2").Spec.NodeAffinity })
				c.updateVolume("pv-1", func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = volumeOn("", "", "n1").Spec.NodeAffinity })
			},
		}
	},
}

// Whatever call goes wrong, and in whatever way: no claim ever has two volumes and
// no volume two claims, and once the fault is over every pod has its volumes, the
// volume that is left can be had, and nothing stays reserved.
func TestEveryCallCanGoWrong(t *testing.T) {
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) {
			for _, fault := range faults.All() {
				t.Run(fault.Name, func(t *testing.T) {
					t.Parallel()
					for _, heldBack := range []bool{false, true} {
						made := 1
						for n := 1; n <= made && !t.Failed(); n++ {
							made = tell().run(t, faults.At(fault, n), heldBack)
							if t.Failed() {
								t.Errorf("call %d of %d, informers held back: %t", n, made, heldBack)
							}
						}
					}
				})
			}
		})
	}
}

// run lets the pods of the story come to their node while a call goes wrong, and
// returns how many calls there were.
func (s story) run(t *testing.T, calls *faults.Calls, heldBack bool) int {
	objects := []runtime.Object{tracking(), capacityOn("n1", "2Gi"), claim("rest", local), pod("last", "rest")}
	for i := range 4 {
		objects = append(objects, volumeOn(fmt.Sprintf("pv-%d", i+1), local, "n1"))
	}
	for _, claim := range s.claims {
		objects = append(objects, claim)
	}
	for _, pod := range s.pods {
		objects = append(objects, pod)
	}
	c := newCluster(t, nil, objects...)
	defer c.controllers()()
	c.patches(calls.Do)
	c.reads(calls.Do)

	bound := map[types.UID]bool{}
	deadline := time.Now().Add(patience)
	for round := 0; len(bound) < len(s.pods); round++ {
		if time.Now().After(deadline) {
			t.Errorf("only %d of %d pods have their volumes", len(bound), len(s.pods))
			return calls.Count()
		}
		if heldBack && round < 2 {
			c.watched.Hold()
		}
		ends := s.round(c, calls, bound, round)
		if heldBack && round < 2 {
			c.watched.Release()
		}
		for uid, end := range ends {
			if c.result(end) == nil && !calls.Dead() {
				bound[uid] = true
			}
		}
		c.checkObjects()
		if calls.Dead() {
			c.restart(calls)
		}
		c.waitForInformers()
		if len(ends) == 0 {
			// What is in doubt is settled in the background.
			time.Sleep(10 * time.Millisecond)
		}
	}
	c.checkAfterwards()
	return calls.Count()
}

// restart is a scheduler that starts after another one has died. Nothing changes
// meanwhile, as the API in memory forgets what happens between list and watch.
func (c *cluster) restart(calls *faults.Calls) {
	c.stop()
	calls.Revive()
	c.api.Lock()
	defer c.api.Unlock()
	c.start(nil)
}

// round takes each pod that is not placed yet through one attempt, all reserved
// before the first is committed, and returns where the attempts will end.
func (s story) round(c *cluster, calls *faults.Calls, bound map[types.UID]bool, round int) map[types.UID]<-chan error {
	ctx, cancel := context.WithCancel(c.ctx)
	c.t.Cleanup(cancel)
	calls.Ends(cancel, c.stop)
	var reserved []*attempt
	for _, pod := range s.pods {
		if bound[pod.UID] {
			continue
		}
		if a, status := c.schedule(pod, "n1"); status.IsSuccess() {
			a.ctx = ctx
			reserved = append(reserved, a)
		}
	}
	if round == 0 && s.meddle != nil {
		s.meddle(c)
	}
	ends := map[types.UID]<-chan error{}
	for _, a := range reserved {
		end := make(chan error, 1)
		go func() {
			var err error
			if _, status := a.plugin.PreBindPreFlight(a.ctx, a.state, a.pod, a.node); !status.IsSkip() {
				err = a.plugin.PreBind(a.ctx, a.state, a.pod, a.node).AsError()
			}
			if err != nil && !calls.Dead() {
				a.plugin.Unreserve(a.ctx, a.state, a.pod, a.node)
			}
			end <- err
		}()
		ends[a.pod.UID] = end
		// With what this one has written, and the informers may not show.
		calls.WaitUntilIdle()
	}
	return ends
}

// controllers bind and provision in the background, as the PersistentVolume
// controller and the provisioner do, until stop is called.
func (c *cluster) controllers() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			for _, pv := range c.volumes() {
				ref := pv.Spec.ClaimRef
				if ref == nil || pv.Status.Phase == v1.VolumeBound {
					continue
				}
				if claim := c.claim(ref.Name); claim.UID == ref.UID && claim.Spec.VolumeName == "" {
					c.bind(pv.Name)
				} else if claim.Spec.VolumeName != pv.Name {
					c.updateVolume(pv.Name, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
				}
			}
			for _, claim := range c.claims() {
				if *claim.Spec.StorageClassName == csi && claim.Annotations[storage.AnnSelectedNode] != "" && claim.Spec.VolumeName == "" {
					c.provisionOnce(&claim)
				}
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}

func (c *cluster) provisionOnce(claim *v1.PersistentVolumeClaim) {
	name := "made-for-" + string(claim.UID)
	pv := volumeOn(name, csi, claim.Annotations[storage.AnnSelectedNode])
	pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: claim.Name, UID: claim.UID}
	c.api.Lock()
	defer c.api.Unlock()
	c.stamp(pv)
	if err := c.client.Tracker().Create(volumeResource, pv, ""); err != nil && !apierrors.IsAlreadyExists(err) {
		c.t.Errorf("provision for claim %s: %v", claim.Name, err)
	}
}

// checkObjects reads the API objects, and nothing else, for what may never be.
func (c *cluster) checkObjects() {
	c.t.Helper()
	volumeOf := map[types.UID]string{}
	made := 0
	for _, pv := range c.volumes() {
		if ref := pv.Spec.ClaimRef; ref != nil && ref.UID != "" {
			if other, ok := volumeOf[ref.UID]; ok {
				c.t.Errorf("claim %s has the volumes %s and %s", ref.Name, other, pv.Name)
			}
			volumeOf[ref.UID] = pv.Name
		}
		if pv.Spec.StorageClassName == csi {
			made++
		}
	}
	if made > 2 {
		c.t.Errorf("%d volumes of 1Gi were made of 2Gi", made)
	}
	for _, claim := range c.claims() {
		if name := claim.Spec.VolumeName; name != "" && volumeOf[claim.UID] != name {
			c.t.Errorf("claim %s is bound to volume %s, which is not its own", claim.Name, name)
		}
	}
}

// checkAfterwards: nothing is reserved, so the volume that is left can be had.
func (c *cluster) checkAfterwards() {
	c.t.Helper()
	c.wantNothingReserved()
	c.plugin.holds.mutex.Lock()
	held := len(c.plugin.holds.byPod)
	c.plugin.holds.mutex.Unlock()
	if held > 0 {
		c.t.Errorf("%d pods hold something", held)
	}
	c.patches(nil)
	c.reads(nil)
	a, status := c.schedule(pod("last", "rest"), "n1")
	if !status.IsSuccess() {
		c.t.Errorf("the volume that is left cannot be had: %v", status)
		return
	}
	if err := c.result(a.preBind()); err != nil {
		c.t.Errorf("the volume that is left cannot be had: %v", err)
	}
	c.checkObjects()
}

// waitForInformers is what the pause before a pod's next attempt is good for.
func (c *cluster) waitForInformers() {
	c.t.Helper()
	c.eventually("the informers to show all objects", func() bool {
		for _, pv := range c.volumes() {
			if seen := c.plugin.stores.Volume(pv.Name); seen == nil || seen.ResourceVersion != pv.ResourceVersion {
				return false
			}
		}
		for _, claim := range c.claims() {
			if seen := c.plugin.stores.Claim(claim.Namespace, claim.Name); seen == nil || seen.ResourceVersion != claim.ResourceVersion {
				return false
			}
		}
		return true
	})
}
