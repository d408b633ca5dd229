// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/reason"
)

// offline returns Volumes whose stores the test fills itself: no informer runs.
func offline(t *testing.T) *Volumes {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	volumes, err := For(ctx, factory).Volumes()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := For(ctx, factory).Volumes(); err != nil || again != volumes {
		t.Fatalf("the second profile got other Volumes (%v)", err)
	}
	return volumes
}

func add(t *testing.T, store interface{ Add(obj any) error }, obj any) {
	t.Helper()
	if err := store.Add(obj); err != nil {
		t.Fatal(err)
	}
}

func testVolume(name, class string, version int) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(version)},
		Spec:       v1.PersistentVolumeSpec{StorageClassName: class},
	}
}

func testClaim(name string, version int) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("claim-" + name), ResourceVersion: fmt.Sprint(version),
	}}
}

func bound(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	pv = pv.DeepCopy()
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	return pv
}

func placed(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storage.AnnSelectedNode, node)
	return claim
}

func TestVolumesOfAClassInOrderOfName(t *testing.T) {
	v := offline(t)
	for _, name := range []string{"c", "a", "b"} {
		add(t, v.volumes, testVolume(name, "fast", 1))
		add(t, v.capacities, &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, StorageClassName: "fast",
		})
	}
	add(t, v.volumes, testVolume("d", "slow", 1))

	var volumes, capacities []string
	for _, one := range v.View().Volumes("fast") {
		volumes = append(volumes, one.PV().Name)
	}
	for _, one := range v.View().Capacities("fast") {
		capacities = append(capacities, one.Object().Name)
	}
	if want := "[a b c]"; fmt.Sprint(volumes) != want || fmt.Sprint(capacities) != want {
		t.Errorf("got volumes %v and capacities %v, want %s", volumes, capacities, want)
	}
}

func TestVolumeIsCompiledOncePerObject(t *testing.T) {
	v := offline(t)
	add(t, v.volumes, testVolume("pv", "fast", 1))
	first := v.View().Volume("pv")
	if v.View().Volumes("fast")[0] != first {
		t.Error("the same object was compiled again")
	}
	add(t, v.volumes, testVolume("pv", "fast", 2))
	if v.View().Volume("pv") == first {
		t.Error("a new object got what was compiled from the old one")
	}
}

func TestCompiledVolumesOfDeletedObjectsAreForgotten(t *testing.T) {
	v := offline(t)
	for i := range 1000 {
		pv := testVolume(fmt.Sprintf("pv-%d", i), "fast", 1)
		add(t, v.volumes, pv)
		v.View().Volumes("fast")
		if err := v.volumes.Delete(pv); err != nil {
			t.Fatal(err)
		}
	}
	if kept := len(v.compiledVolumes.byName); kept > 100 {
		t.Errorf("%d compiled volumes are kept of a store that is empty", kept)
	}
}

func TestViewLaysTheLedgersOverTheStores(t *testing.T) {
	v := offline(t)
	pv, data, logs := testVolume("pv", "fast", 1), testClaim("data", 1), testClaim("logs", 1)
	add(t, v.volumes, pv)
	add(t, v.claims, data)
	add(t, v.claims, logs)
	boundTo := func() string {
		ref := v.View().Volumes("fast")[0].PV().Spec.ClaimRef
		if ref == nil {
			return ""
		}
		return ref.Name
	}
	node := func() string { return v.View().Claim("default", "logs").Annotations[storage.AnnSelectedNode] }
	want := func(when, wantClaim, wantNode string) {
		t.Helper()
		if gotClaim, gotNode := boundTo(), node(); gotClaim != wantClaim || gotNode != wantNode {
			t.Errorf("%s: the volume is bound to %q and the claim placed on %q, want %q and %q", when, gotClaim, gotNode, wantClaim, wantNode)
		}
	}

	before := v.View()
	plans := VolumePlans{Bound: []*v1.PersistentVolume{bound(pv, data)}, Placed: []*v1.PersistentVolumeClaim{placed(logs, "n1")}}
	if err := v.Reserve("pod", plans); err != nil {
		t.Fatal(err)
	}
	want("planned", "data", "n1")
	if before.Volume("pv").PV().Spec.ClaimRef != nil {
		t.Error("a View that was taken before changed")
	}

	add(t, v.volumes, testVolume("pv", "fast", 5))
	add(t, v.claims, testClaim("logs", 5))
	want("planned and somebody else touched the objects", "data", "n1")

	v.BoundVolumes.Wrote("pod", bound(testVolume("pv", "fast", 6), data))
	v.PlacedClaims.Wrote("pod", placed(testClaim("logs", 6), "n1"))
	want("written, and the stores are late", "data", "n1")

	add(t, v.volumes, testVolume("pv", "fast", 7))
	add(t, v.claims, testClaim("logs", 7))
	want("taken back by somebody, and the stores show it", "", "")
}

func TestReserveRefusesWhatContradicts(t *testing.T) {
	pv, other := testVolume("pv", "fast", 1), testVolume("other", "fast", 1)
	data, logs := testClaim("data", 1), testClaim("logs", 1)
	replaced := testClaim("data", 2)
	replaced.UID = "another"
	taken := bound(testVolume("pv", "fast", 2), logs)

	onVolume := func(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) VolumePlans {
		return VolumePlans{Bound: []*v1.PersistentVolume{bound(pv, claim)}}
	}
	onNode := func(claim *v1.PersistentVolumeClaim, node string) VolumePlans {
		return VolumePlans{Placed: []*v1.PersistentVolumeClaim{placed(claim, node)}}
	}
	for name, test := range map[string]struct {
		first  VolumePlans
		change func(t *testing.T, v *Volumes)
		second VolumePlans
		refuse bool
	}{
		"same volume, same claim":   {first: onVolume(pv, data), second: onVolume(pv, data)},
		"same volume, other claim":  {first: onVolume(pv, data), second: onVolume(pv, logs), refuse: true},
		"other volume, same claim":  {first: onVolume(pv, data), second: onVolume(other, data), refuse: true},
		"other volume, other claim": {first: onVolume(pv, data), second: onVolume(other, logs)},
		"same claim, same node":     {first: onNode(data, "n1"), second: onNode(data, "n1")},
		"same claim, other node":    {first: onNode(data, "n1"), second: onNode(data, "n2"), refuse: true},
		"placed, then bound":        {first: onNode(data, "n1"), second: onVolume(pv, data), refuse: true},
		"bound, then placed":        {first: onVolume(pv, data), second: onNode(data, "n1"), refuse: true},
		"volume taken": {second: onVolume(pv, data), refuse: true, change: func(t *testing.T, v *Volumes) {
			add(t, v.volumes, taken)
		}},
		"claim replaced": {second: onNode(data, "n1"), refuse: true, change: func(t *testing.T, v *Volumes) {
			add(t, v.claims, replaced)
		}},
		"claim of volume replaced": {second: onVolume(pv, data), refuse: true, change: func(t *testing.T, v *Volumes) {
			add(t, v.claims, replaced)
		}},
		"claim placed by somebody else": {second: onNode(data, "n1"), refuse: true, change: func(t *testing.T, v *Volumes) {
			add(t, v.claims, placed(testClaim("data", 2), "n2"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := offline(t)
			add(t, v.volumes, pv)
			add(t, v.volumes, other)
			add(t, v.claims, data)
			add(t, v.claims, logs)
			if err := v.Reserve("first", test.first); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(t, v)
			}
			before := len(v.BoundVolumes.InFlight()) + len(v.PlacedClaims.InFlight())
			err := v.Reserve("second", test.second)
			if (err != nil) != test.refuse {
				t.Fatalf("Reserve returned %v", err)
			}
			if after := len(v.BoundVolumes.InFlight()) + len(v.PlacedClaims.InFlight()); err != nil && after != before {
				t.Errorf("the refused plan left an entry")
			}
		})
	}
}

func TestWatchTellsOfChangesUntilStopped(t *testing.T) {
	v := offline(t)
	claim := reason.Ref{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data"}
	changed, stop := v.Watch([]reason.Ref{claim})
	told := func() bool {
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	claims, volumes := v.watches.handler("PersistentVolumeClaim"), v.watches.handler("PersistentVolume")

	claims.OnAdd(testClaim("other", 1), false)
	if told() {
		t.Error("told of another claim")
	}
	claims.OnUpdate(testClaim("data", 1), testClaim("data", 2))
	claims.OnDelete(testClaim("data", 2))
	if !told() {
		t.Error("not told of a change of the claim")
	}
	if told() {
		t.Error("told twice of what could be seen at once")
	}
	volumes.OnAdd(bound(testVolume("pv", "fast", 1), testClaim("data", 1)), false)
	if !told() {
		t.Error("not told of a volume that names the claim")
	}
	stop()
	claims.OnDelete(testClaim("data", 2))
	if told() || len(v.watches.byObject) != 0 {
		t.Error("told after stop, or something is kept")
	}
}
