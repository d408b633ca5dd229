// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"os"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/faults"
	"github.com/berth-scheduler/berth/internal/ledger"
)

// outlasting is an outage in which Undo gives up.
var outlasting = faults.Fault{
	Name: "is the first of an outage that outlasts Undo, with effect", After: faults.ErrLost, Outage: undoRetries + 1,
}

// A story is some pods on their way to their nodes. It is told again and again,
// each time with another call going wrong.
type story struct {
	name    string
	objects func() []runtime.Object
	pods    func() []*v1.Pod
	// doomed pods can never be placed; they are deleted after some attempts, and
	// Kubernetes' resourceclaim controller releases what they leave behind.
	doomed []types.UID
	// meddle is what others do between Reserve and PreBind of the first round.
	meddle func(t *testing.T, s *server)
}

var stories = []story{
	{
		name: "three pods, one claim shared",
		objects: func() []runtime.Object {
			return []runtime.Object{makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("own"), makeClaim("shared")}
		},
		pods: func() []*v1.Pod {
			return []*v1.Pod{makePod("both", "own", "shared"), makePod("sharer", "shared"), makePod("sharer-too", "shared")}
		},
	},
	{
		name: "a claim changes under the scheduler's feet, half of the work is undone",
		objects: func() []runtime.Object {
			return []runtime.Object{makeClass(), makeSlice("n1", "gpu-0", "gpu-1", "gpu-2"), makeClaim("a"), makeClaim("b"), makeClaim("c")}
		},
		pods: func() []*v1.Pod { return []*v1.Pod{makePod("first", "a", "b"), makePod("second", "b", "c")} },
		meddle: func(t *testing.T, s *server) {
			s.change(t, "a", func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"edited": "yes"} })
			s.remove(t, "c")
			again := makeClaim("c")
			again.UID = "c-again"
			s.add(t, again)
		},
	},
	{
		name: "what a pod gives up is for another one",
		objects: func() []runtime.Object {
			return []runtime.Object{makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("a"), makeClaim("b"), makeClaim("c"), makeClaim("d")}
		},
		pods:   func() []*v1.Pod { return []*v1.Pod{makePod("doomed", "a", "b"), makePod("next", "c", "d")} },
		doomed: []types.UID{"doomed"},
		meddle: func(t *testing.T, s *server) { s.remove(t, "b") },
	},
	{
		name: "allocations on different nodes are given up",
		objects: func() []runtime.Object {
			return []runtime.Object{
				makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeSlice("n2", "gpu-0", "gpu-1"),
				allocated(makeClaim("here"), "n1", "gpu-0"), allocated(makeClaim("there"), "n2", "gpu-1"),
			}
		},
		pods: func() []*v1.Pod { return []*v1.Pod{makePod("torn", "here", "there")} },
	},
	{
		name: "extended resources, beside a claim and alone",
		objects: func() []runtime.Object {
			return []runtime.Object{makeClass(), makeSlice("n1", "gpu-0", "gpu-1", "gpu-2"), makeClaim("own")}
		},
		pods: func() []*v1.Pod { return []*v1.Pod{extendedPod("mixed", 1, "own"), extendedPod("alone", 1)} },
	},
	{
		name: "extended resources of a pod whose claim fails, for another one",
		objects: func() []runtime.Object {
			return []runtime.Object{makeClass(), makeSlice("n1", "gpu-0", "gpu-1"), makeClaim("a")}
		},
		pods:   func() []*v1.Pod { return []*v1.Pod{extendedPod("doomed", 1, "a"), extendedPod("next", 2)} },
		doomed: []types.UID{"doomed"},
		meddle: func(t *testing.T, s *server) { s.remove(t, "a") },
	},
}

// Whatever call goes wrong, and in whatever way: no device is ever in two claims,
// nothing is reserved for a pod that is gone, and once the fault is over every pod
// is placed, every claim can be used, and nothing is left in the ledger.
func TestEveryCallCanGoWrong(t *testing.T) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			for _, fault := range append(faults.All(), outlasting) {
				t.Run(fault.Name, func(t *testing.T) {
					t.Parallel()
					calls := 0
					for n := 1; n == 1 || calls >= n-1; n++ {
						for _, heldBack := range informersAt(n, fault) {
							c := newCluster(t, story.objects()...)
							calls = c.tell(story, fault, n, heldBack)
							c.kill()
							if t.Failed() {
								t.Fatalf("call %d, informers held back: %v", n, heldBack)
							}
						}
					}
					if calls == 0 {
						t.Fatal("the story makes no call")
					}
				})
			}
		})
	}
}

// informersAt says whether informers are held back when call n goes wrong: both in
// turn if BERTH_LONG is set, and when only the ledger can know what became of the
// call, otherwise the one or the other.
func informersAt(n int, fault faults.Fault) []bool {
	if os.Getenv("BERTH_LONG") != "" || fault.Outage > undoRetries {
		return []bool{false, true}
	}
	return []bool{n%2 == 0}
}

// tell lets the pods of the story run while call n goes wrong, and returns how
// many calls there were.
func (c *cluster) tell(story story, fault faults.Fault, n int, heldBack bool) int {
	c.t.Helper()
	pods := story.pods()
	for _, pod := range pods {
		if _, err := c.client.CoreV1().Pods(namespace).Create(c.ctx, pod, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	if heldBack {
		c.server.watched.Hold()
	}
	calls := c.breakCall(fault, n)

	bound := map[types.UID]bool{}
	for round := 0; len(bound) < len(pods); round++ {
		if round > 40 {
			c.t.Errorf("pods that are never placed: %d of %d are", len(bound), len(pods))
			return calls.Count()
		}
		c.round(round, pods, bound, func() {
			if round == 0 && story.meddle != nil {
				story.meddle(c.t, c.server)
			}
		}, calls)
		c.checkObjects(pods)
		if calls.Dead() {
			c.restart()
			calls.Revive()
		}
		if round == 3 {
			c.server.watched.Release()
			pods = c.deleteDoomed(pods, story.doomed)
		}
		if round > 3 || !heldBack && round%2 == 1 { // at first there is no time to settle
			c.waitForInformers()
		}
	}
	c.server.watched.Release()
	c.wantSettled()
	total := calls.Count()
	c.server.through(nil)
	c.checkAfterwards(pods)
	return total
}

// round tries to place each pod that is not bound: all are reserved before the
// first is committed, as happens when binding is slow. Every second time the pods
// come in the other order.
func (c *cluster) round(round int, pods []*v1.Pod, bound map[types.UID]bool, afterReserve func(), calls *faults.Calls) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	calls.Ends(cancel, nil)
	var reserved []*attempt
	for i := range pods {
		pod := pods[i]
		if round%2 == 1 {
			pod = pods[len(pods)-1-i]
		}
		if bound[pod.UID] {
			continue
		}
		if a := c.tryReserve(pod); a != nil {
			reserved = append(reserved, a)
		}
	}
	if round == 0 {
		reserved = c.rejectLast(reserved, calls)
	}
	afterReserve()
	for _, a := range reserved {
		if status := a.plugin.PreBind(ctx, a.state, a.pod, a.node.Name); status.IsSuccess() && !calls.Dead() {
			bound[a.pod.UID] = true
			continue
		}
		a.unreserve()
	}
}

// rejectLast lets another plugin reject the last pod, which is then tried again. It
// has written nothing, so there is nothing that the API server need be asked for.
func (c *cluster) rejectLast(reserved []*attempt, calls *faults.Calls) []*attempt {
	c.t.Helper()
	if len(reserved) == 0 {
		return nil
	}
	last := reserved[len(reserved)-1]
	last.unreserve()
	if n := calls.Count(); n != 0 {
		c.t.Errorf("%d calls to take back what was only planned", n)
	}
	again := c.tryReserve(last.pod)
	if again == nil {
		c.t.Errorf("pod %s does not fit any more", last.pod.Name)
		return reserved[:len(reserved)-1]
	}
	return append(reserved[:len(reserved)-1], again)
}

// tryReserve runs the scheduling cycle of a pod over all nodes, nil when it fails.
func (c *cluster) tryReserve(pod *v1.Pod) *attempt {
	if current := c.plugin.devices.Pod(pod.Namespace, pod.Name); current != nil {
		pod = current
	}
	var a *attempt
	for _, node := range []string{"n1", "n2"} {
		var state *cycleState
		if a != nil {
			state = a.state
		}
		next := &attempt{c: c, plugin: c.plugin, pod: pod, node: makeNode(node), state: state}
		if state == nil {
			next.state = &cycleState{}
			if _, status := c.plugin.PreFilter(c.ctx, next.state, pod, allNodes()); !status.IsSuccess() {
				if status.IsRejected() {
					c.plugin.PostFilter(c.ctx, next.state, pod, nil)
				}
				return nil
			}
		}
		a = next
		if !c.plugin.Filter(c.ctx, a.state, pod, nodeInfo{node: a.node}).IsSuccess() {
			continue
		}
		if c.plugin.Reserve(c.ctx, a.state, pod, node).IsSuccess() {
			return a
		}
		a.unreserve()
		return nil
	}
	c.plugin.PostFilter(c.ctx, a.state, pod, nil)
	return nil
}

// waitForInformers is what the pause before a pod's next attempt is good for.
func (c *cluster) waitForInformers() {
	c.t.Helper()
	eventually(c.t, "the informer shows all claims and no write is in doubt", func() bool {
		if c.plugin.ledger.Count()[ledger.Doubtful] > 0 {
			return false
		}
		claims := c.server.all(c.t)
		for _, claim := range claims {
			if seen := c.plugin.devices.Stored(namespace, claim.Name); seen == nil || seen.ResourceVersion != claim.ResourceVersion {
				return false
			}
		}
		shown, err := c.handle.factory.Resource().V1().ResourceClaims().Lister().List(labels.Everything())
		return err == nil && len(shown) == len(claims)
	})
}

// deleteDoomed deletes the pods that can never be placed and returns the others.
func (c *cluster) deleteDoomed(pods []*v1.Pod, doomed []types.UID) []*v1.Pod {
	c.t.Helper()
	for _, claim := range c.extendedClaims() {
		if slices.Contains(doomed, metav1.GetControllerOf(&claim).UID) {
			// A scheduler that is still at it may be first.
			if err := c.server.tracker.Delete(claimsResource, namespace, claim.Name); err != nil && !apierrors.IsNotFound(err) {
				c.t.Fatal(err)
			}
		}
	}
	for _, claim := range c.server.all(c.t) {
		if isExtended(&claim) || !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return slices.Contains(doomed, r.UID) }) {
			continue
		}
		c.server.change(c.t, claim.Name, deallocate) // no doomed pod shares a claim
	}
	return slices.DeleteFunc(pods, func(pod *v1.Pod) bool { return slices.Contains(doomed, pod.UID) })
}

// restart is a scheduler that starts after another one has died.
func (c *cluster) restart() {
	c.kill()
	c.server.watched.Release()
	c.startScheduler()
}

// checkObjects reads the API objects, and nothing else, for what may never be.
func (c *cluster) checkObjects(pods []*v1.Pod) {
	c.t.Helper()
	alive := map[types.UID]bool{}
	for _, pod := range pods {
		alive[pod.UID] = true
	}
	holder := map[string]string{}
	for _, claim := range c.server.all(c.t) {
		if claim.Status.Allocation == nil {
			if len(claim.Status.ReservedFor) > 0 {
				c.t.Errorf("claim %s is reserved and not allocated", claim.Name)
			}
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := result.Pool + "/" + result.Device
			if other, ok := holder[device]; ok {
				c.t.Errorf("device %s is in the claims %s and %s", device, other, claim.Name)
			}
			holder[device] = claim.Name
		}
		for _, user := range claim.Status.ReservedFor {
			if !alive[user.UID] {
				c.t.Errorf("claim %s is reserved for %s, which is gone", claim.Name, user.Name)
			}
		}
	}
}

// checkAfterwards lets all pods end, and Kubernetes' resourceclaim controller
// release what was theirs: then every claim can be used again, by new pods.
func (c *cluster) checkAfterwards(pods []*v1.Pod) {
	c.t.Helper()
	c.checkMappings(pods)
	for _, claim := range c.server.all(c.t) {
		c.server.change(c.t, claim.Name, func(claim *resourceapi.ResourceClaim) {
			claim.Status.ReservedFor = nil
			claim.Status.Allocation = nil
		})
	}
	c.waitForInformers()
	for _, pod := range pods {
		next := pod.DeepCopy()
		next.Name, next.UID, next.ResourceVersion = pod.Name+"-next", pod.UID+"-next", ""
		if _, err := c.client.CoreV1().Pods(namespace).Create(c.ctx, next, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
		if !c.placeEventually(next) {
			c.t.Errorf("the claims of pod %s cannot be used any more", pod.Name)
		}
	}
}

// checkMappings checks that each pod with extended resources is mapped to a claim
// that holds its devices, and that no other claim was left by any attempt. Then it
// deletes the claims, as the controller does when their pods have ended.
func (c *cluster) checkMappings(pods []*v1.Pod) {
	c.t.Helper()
	claims := c.extendedClaims()
	mapped := 0
	for _, pod := range pods {
		if len(c.plugin.servedOf(pod)) > 0 {
			c.wantPlaced(pod, int(amount(&pod.Spec.Containers[0], "example.com/gpu")))
			mapped++
		}
	}
	if len(claims) != mapped {
		c.t.Errorf("%d claims for extended resources of %d pods", len(claims), mapped)
	}
	for _, claim := range claims {
		c.server.remove(c.t, claim.Name)
	}
}

// placeEventually tries a pod several times, with pauses.
func (c *cluster) placeEventually(pod *v1.Pod) bool {
	c.t.Helper()
	for range 10 {
		if a := c.tryReserve(pod); a != nil {
			if a.preBind().IsSuccess() {
				return true
			}
			a.unreserve()
		}
		c.waitForInformers()
	}
	return false
}

// breakCall lets call n go wrong.
func (c *cluster) breakCall(fault faults.Fault, n int) *faults.Calls {
	calls := faults.At(fault, n)
	c.server.through(calls)
	return calls
}
