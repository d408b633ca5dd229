// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storage "k8s.io/component-helpers/storage/volume"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/draws"
	"github.com/berth-scheduler/berth/internal/ledger"
	"github.com/berth-scheduler/berth/volume"
)

// drive is Volumes with one node, and a driver that reports 10Gi for it.
type drive struct {
	*Volumes
	t     *testing.T
	clock *clocktesting.FakeClock
	node  *v1.Node
}

func newDrive(t *testing.T) *drive {
	t.Helper()
	p := &drive{Volumes: offline(t), t: t, clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	p.Draws = draws.New(p.clock)
	p.node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{v1.LabelHostname: "host-1"}}}
	add(t, p.nodes, p.node)
	add(t, p.classes, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "lvm"}, Provisioner: "lvm.example.com",
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	add(t, p.drivers, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "lvm.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)},
	})
	p.report(1, "10Gi")
	return p
}

func (p *drive) report(version int, size string) {
	capacity := &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: "csi", Name: "pool", ResourceVersion: fmt.Sprint(version)},
		StorageClassName: "lvm", Capacity: ptr.To(resource.MustParse(size)),
		NodeTopology: &metav1.LabelSelector{MatchLabels: p.node.Labels},
	}
	add(p.t, p.capacities, capacity)
	p.capacityHandler().OnUpdate(nil, capacity)
}

// claim is an unbound claim, seen in the store.
func (p *drive) claim(name string, version int, change func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	claim := testClaim(name, version)
	claim.Spec.StorageClassName = ptr.To("lvm")
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("3Gi")}
	if change != nil {
		change(claim)
	}
	add(p.t, p.claims, claim)
	p.claimHandler().OnAdd(claim, false)
	return claim
}

func onN1(claim *v1.PersistentVolumeClaim) {
	claim.Annotations = map[string]string{storage.AnnSelectedNode: "n1"}
}

func withVolume(claim *v1.PersistentVolumeClaim) {
	onN1(claim)
	claim.Spec.VolumeName = "pv-" + claim.Name
}

// place is a scheduling cycle of a pod with the claim, up to Reserve.
func (p *drive) place(claim *v1.PersistentVolumeClaim) error {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: "pod-" + claim.Name},
		Spec: v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}}},
	}
	problem, rejection := volume.Compile(pod, p.View(), volume.Options{})
	if rejection != nil {
		return rejection
	}
	plan, rejection := problem.Solve(p.node)
	if rejection != nil {
		return rejection
	}
	return p.Reserve(owner(claim), VolumePlans{
		Placed: []*v1.PersistentVolumeClaim{placed(claim, "n1")}, Draws: plan.Provisions(),
	})
}

func owner(claim *v1.PersistentVolumeClaim) types.UID { return types.UID("pod-" + claim.Name) }

func (p *drive) undo(claim *v1.PersistentVolumeClaim) {
	p.PlacedClaims.Undo(owner(claim), claim.UID)
	p.UndoDraws(owner(claim), []*v1.PersistentVolumeClaim{claim})
}

func (p *drive) mustPlace(claim *v1.PersistentVolumeClaim) {
	p.t.Helper()
	if err := p.place(claim); err != nil {
		p.t.Errorf("claim %s: %v", claim.Name, err)
	}
}

func (p *drive) mustWait(claim *v1.PersistentVolumeClaim) {
	p.t.Helper()
	if p.place(claim) == nil {
		p.t.Errorf("claim %s was promised storage that is not there", claim.Name)
	}
}

// TestPodsDrawFromOneCapacity: 10Gi, five pods of 3Gi, the object unchanged: three
// are placed, two wait. They are placed as the draws of others end.
func TestPodsDrawFromOneCapacity(t *testing.T) {
	p := newDrive(t)
	var claims []*v1.PersistentVolumeClaim
	for i := range 5 {
		claims = append(claims, p.claim(fmt.Sprintf("c%d", i), i+1, nil))
	}
	for _, claim := range claims[:3] {
		p.mustPlace(claim)
	}
	p.mustWait(claims[3])

	told := 0
	p.Draws.OnFree(func() { told++ })
	p.undo(claims[0])
	if told != 1 {
		t.Errorf("who waits was told %d times of the end of a draw", told)
	}
	p.mustPlace(claims[3])
	p.mustWait(claims[4])

	// The driver has made the volume of a claim and reports before it is bound.
	p.claim("c1", 10, onN1)
	p.report(11, "7Gi")
	p.mustWait(claims[4])
	p.claim("c1", 12, withVolume)
	p.mustWait(claims[4])
	p.clock.Step(draws.DefaultSettle)
	p.mustWait(claims[4])

	// A volume is deleted: there is room again.
	p.report(13, "10Gi")
	p.mustPlace(claims[4])
}

// TestADrawOutlastsItsPod: as long as the claim names a node, its provisioner may
// make the volume; when the provisioner gives the claim back, the draw ends.
func TestADrawOutlastsItsPod(t *testing.T) {
	p := newDrive(t)
	for i := range 2 {
		p.mustPlace(p.claim(fmt.Sprintf("other%d", i), i+1, nil))
	}
	claim, waiting := p.claim("data", 5, nil), p.claim("waiting", 6, nil)
	p.mustPlace(claim)

	// Written, and the store does not show it yet.
	p.PlacedClaims.Wrote(owner(claim), placed(p.claim("data", 7, nil), "n1"))
	p.PlacedClaims.Wrote(owner(claim), placed(testClaim("data", 8), "n1"))
	p.undo(claim)
	p.mustWait(waiting)

	p.claim("data", 9, onN1)
	p.mustWait(waiting)
	p.claim("data", 10, nil)
	p.mustPlace(waiting)
}

// TestClaimsThatOthersPlacedDraw: another scheduler, or this one before it was
// started again.
func TestClaimsThatOthersPlacedDraw(t *testing.T) {
	p := newDrive(t)
	for i := range 3 {
		p.claim(fmt.Sprintf("c%d", i), i+1, onN1)
	}
	late := p.claim("late", 10, nil)
	p.mustWait(late)

	p.claim("c0", 11, nil)
	p.mustPlace(late)
}

// TestReserveHoldsAPlanAgainstTheNewestReport: the object has changed since the
// pod's View.
func TestReserveHoldsAPlanAgainstTheNewestReport(t *testing.T) {
	p := newDrive(t)
	claim := p.claim("data", 1, nil)
	from := p.View().Capacities("lvm")[0].Object()
	p.report(2, "2Gi")
	err := p.Reserve(owner(claim), VolumePlans{
		Placed: []*v1.PersistentVolumeClaim{placed(claim, "n1")},
		Draws:  []volume.Provision{{Claim: claim, Node: "n1", Capacity: from}},
	})
	if err == nil || !strings.Contains(err.Error(), "2Gi of CSIStorageCapacity csi/pool are left, 3Gi are wanted") {
		t.Errorf("Reserve: %v", err)
	}
	if len(p.PlacedClaims.InFlight()) != 0 {
		t.Error("the refused plan left an entry")
	}
}

// TestARefusedPlanDrawsNothing: all of a plan is reserved or none.
func TestARefusedPlanDrawsNothing(t *testing.T) {
	p := newDrive(t)
	claim, other := p.claim("data", 1, nil), p.claim("other", 2, nil)
	pv := testVolume("pv", "lvm", 1)
	add(t, p.volumes, pv)
	if err := p.Reserve("first", VolumePlans{Bound: []*v1.PersistentVolume{bound(pv, other)}}); err != nil {
		t.Fatal(err)
	}
	from := p.View().Capacities("lvm")[0]
	if err := p.Reserve("second", VolumePlans{
		Bound:  []*v1.PersistentVolume{bound(testVolume("pv", "lvm", 1), testClaim("third", 1))},
		Placed: []*v1.PersistentVolumeClaim{placed(claim, "n1")},
		Draws:  []volume.Provision{{Claim: claim, Node: "n1", Capacity: from.Object()}},
	}); err == nil {
		t.Fatal("the plan was reserved")
	}
	if drawn := p.Draws.Drawn(from); len(drawn) != 0 {
		t.Errorf("%v are drawn", drawn)
	}
}

// TestARefusedPlanLeavesWhatThePodHas: and no draw of another counts on the pod.
func TestARefusedPlanLeavesWhatThePodHas(t *testing.T) {
	p := newDrive(t)
	pv, held, data := testVolume("pv", "lvm", 1), p.claim("held", 1, nil), p.claim("data", 2, nil)
	add(t, p.volumes, pv)
	from := p.View().Capacities("lvm")[0]
	plans := VolumePlans{
		Bound:  []*v1.PersistentVolume{bound(pv, held)},
		Placed: []*v1.PersistentVolumeClaim{placed(data, "n1")},
		Draws:  []volume.Provision{{Claim: data, Node: "n1", Capacity: from.Object()}},
	}
	if err := p.Reserve("pod", plans); err != nil {
		t.Fatal(err)
	}

	// Now it also wants a claim that another pod draws for, and one of which nobody
	// knows whether it was written.
	shared, doubtful := p.claim("shared", 3, nil), p.claim("doubtful", 4, nil)
	p.mustPlace(shared)
	if err := p.PlacedClaims.Reserve("another", []*v1.PersistentVolumeClaim{placed(doubtful, "n1")}, sameNode); err != nil {
		t.Fatal(err)
	}
	p.PlacedClaims.Doubt(doubtful.UID)
	p.PlacedClaims.Undo("another", doubtful.UID)
	plans.Placed = append(plans.Placed, placed(shared, "n1"), placed(doubtful, "n1"))
	plans.Draws = append(plans.Draws, volume.Provision{Claim: shared, Node: "n1"})
	if err := p.Reserve("pod", plans); err == nil {
		t.Fatal("a plan in doubt was reserved")
	}

	p.undo(shared)
	var drawn []string
	for _, d := range p.Draws.Drawn(from) {
		drawn = append(drawn, d.Claim.Name)
	}
	if !slices.Equal(drawn, []string{"data"}) {
		t.Errorf("%v are drawn, want data", drawn)
	}
	if state := p.BoundVolumes.State(pv.UID); state != ledger.Planned {
		t.Errorf("the volume that the pod had reserved is %v", state)
	}
}
