// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package draws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berth-scheduler/berth/reason"
	"github.com/berth-scheduler/berth/volume"
)

// driver reports the capacity of one pool.
type driver struct{ version int }

func (d *driver) reports(size string) *volume.Capacity { return d.named("pool", size) }

func (d *driver) named(name, size string) *volume.Capacity {
	d.version++
	total := resource.MustParse(size)
	return volume.CompileCapacity(&storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: "csi", Name: name, ResourceVersion: fmt.Sprint(d.version)},
		StorageClassName: "lvm", Capacity: &total,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/hostname": "n1"}},
	})
}

func draw(claim, size string) volume.Draw {
	return volume.Draw{
		Claim: reason.Ref{Kind: "PersistentVolumeClaim", Namespace: "ml", Name: claim},
		UID:   types.UID(claim), Size: resource.MustParse(size),
	}
}

func newBook() (*Book, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	return New(clock), clock
}

// drawn is what is held against the capacity, as "claim size, claim size".
func drawn(b *Book, from *volume.Capacity) string {
	var all []string
	for _, d := range b.Drawn(from) {
		all = append(all, d.Claim.Name+" "+d.Size.String())
	}
	return strings.Join(all, ", ")
}

func want(t *testing.T, b *Book, from *volume.Capacity, expected string) {
	t.Helper()
	if got := drawn(b, from); got != expected {
		t.Errorf("drawn: %q, want %q", got, expected)
	}
}

func mustReserve(t *testing.T, b *Book, owner string, from *volume.Capacity, d volume.Draw) {
	t.Helper()
	if err := b.Reserve(types.UID(owner), from, d); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyWhatFitsIsReserved: 10Gi, five pods of 3Gi, the object unchanged: three
// are placed, two wait.
func TestOnlyWhatFitsIsReserved(t *testing.T) {
	b, _ := newBook()
	var d driver
	pool := d.reports("10Gi")
	var placed []string
	for i := range 5 {
		name := fmt.Sprintf("c%d", i)
		if err := b.Reserve(types.UID("pod-"+name), pool, draw(name, "3Gi")); err == nil {
			placed = append(placed, name)
		}
	}
	if !slices.Equal(placed, []string{"c0", "c1", "c2"}) {
		t.Errorf("placed %v", placed)
	}
	want(t, b, pool, "c0 3Gi, c1 3Gi, c2 3Gi")
}

// TestUndoEndsADrawUnlessTheProvisionerIsAtWork: with its last owner.
func TestUndoEndsADrawUnlessTheProvisionerIsAtWork(t *testing.T) {
	b, _ := newBook()
	var d driver
	pool := d.reports("10Gi")
	mustReserve(t, b, "pod-1", pool, draw("a", "3Gi"))
	b.Join("pod-2", "a")
	want(t, b, pool, "a 3Gi")

	b.Undo("pod-1", "a")
	b.Undo("pod-1", "a")
	want(t, b, pool, "a 3Gi")
	b.Undo("pod-2", "a")
	want(t, b, pool, "")

	mustReserve(t, b, "pod-1", pool, draw("b", "3Gi"))
	b.Placed("b")
	b.Undo("pod-1", "b")
	want(t, b, pool, "b 3Gi")
	b.Unplaced("b")
	want(t, b, pool, "")
}

// TestOneClaimDrawsOnce: pods that share a claim draw once.
func TestOneClaimDrawsOnce(t *testing.T) {
	b, _ := newBook()
	var d driver
	pool := d.reports("5Gi")
	mustReserve(t, b, "pod-1", pool, draw("a", "3Gi"))
	mustReserve(t, b, "pod-2", pool, draw("a", "3Gi"))
	want(t, b, pool, "a 3Gi")
}

// TestAFallIsCreditedToTheOldest: drivers report before the volume exists.
func TestAFallIsCreditedToTheOldest(t *testing.T) {
	b, _ := newBook()
	var d driver
	pool := d.reports("10Gi")
	mustReserve(t, b, "pod-1", pool, draw("a", "3Gi"))
	mustReserve(t, b, "pod-2", pool, draw("b", "3Gi"))

	pool = d.reports("6Gi")
	want(t, b, pool, "b 2Gi")
	// What the driver has freed again is no longer credited.
	pool = d.reports("8Gi")
	want(t, b, pool, "a 1Gi, b 3Gi")
	// More than all draws is somebody else's.
	pool = d.reports("1Gi")
	want(t, b, pool, "")
	pool = d.reports("2Gi")
	want(t, b, pool, "b 1Gi")
}

// TestADrawEndsAtTheNextReportOnceBound: or when it has settled.
func TestADrawEndsAtTheNextReportOnceBound(t *testing.T) {
	b, clock := newBook()
	var d driver
	pool := d.reports("10Gi")
	mustReserve(t, b, "pod-1", pool, draw("a", "3Gi"))
	mustReserve(t, b, "pod-2", pool, draw("b", "3Gi"))
	b.Bound("b")
	want(t, b, pool, "a 3Gi, b 3Gi")

	// The fall is that of the claim that is bound.
	pool = d.reports("7Gi")
	want(t, b, pool, "a 3Gi")

	b.Bound("a")
	clock.Step(DefaultSettle - time.Second)
	want(t, b, pool, "a 3Gi")
	// An unchanged report says nothing.
	pool = d.reports("7Gi")
	want(t, b, pool, "a 3Gi")
	clock.Step(time.Second)
	want(t, b, pool, "")
	if clock.HasWaiters() || len(b.byClaim)+len(b.segments) != 0 {
		t.Error("something is kept of draws that have ended")
	}
}

// TestTheMostPatientSettlingTimeCounts: several profiles share a Book.
func TestTheMostPatientSettlingTimeCounts(t *testing.T) {
	b, clock := newBook()
	b.SettleWithin(10 * time.Second)
	b.SettleWithin(5 * time.Second)
	var d driver
	pool := d.reports("10Gi")
	mustReserve(t, b, "pod-1", pool, draw("a", "3Gi"))
	b.Bound("a")
	clock.Step(9 * time.Second)
	want(t, b, pool, "a 3Gi")
	clock.Step(time.Second)
	want(t, b, pool, "")
}

// TestWithoutSettlingADrawEndsWhenItIsBound: with what the report shows of it.
func TestWithoutSettlingADrawEndsWhenItIsBound(t *testing.T) {
	b, clock := newBook()
	b.SettleWithin(0)
	told := false
	b.OnFree(func() { told = true })
	var d driver
	pool := d.reports("10Gi")
	mustReserve(t, b, "pod-1", pool, draw("a", "3Gi"))
	mustReserve(t, b, "pod-2", pool, draw("b", "3Gi"))
	pool = d.reports("7Gi")
	want(t, b, pool, "b 3Gi")
	told = false
	b.Bound("a")
	want(t, b, pool, "b 3Gi")
	b.Bound("b")
	want(t, b, pool, "")
	if !told {
		t.Error("nobody was told that less is drawn")
	}
	if clock.HasWaiters() || len(b.byClaim)+len(b.segments) != 0 {
		t.Error("something is kept of draws that have ended")
	}
}

// TestADeletedClaimSettles: its volume may have been made.
func TestADeletedClaimSettles(t *testing.T) {
	b, clock := newBook()
	var d driver
	pool := d.reports("10Gi")
	mustReserve(t, b, "pod-1", pool, draw("a", "3Gi"))
	b.Placed("a")
	b.Undo("pod-1", "a")
	b.Gone("a")
	want(t, b, pool, "a 3Gi")
	clock.Step(DefaultSettle)
	want(t, b, pool, "")
}

// TestTheStorageOutlivesItsObject: a driver replaces the object by another for the
// same class and nodes.
func TestTheStorageOutlivesItsObject(t *testing.T) {
	b, _ := newBook()
	var d driver
	mustReserve(t, b, "pod-1", d.named("pool-1", "10Gi"), draw("a", "3Gi"))
	want(t, b, d.named("pool-2", "10Gi"), "a 3Gi")
	want(t, b, d.named("pool-3", "7Gi"), "")
}

// TestReserveMaySeeTheReportFirst: its event comes later. The draws that waited for
// it end, be they all that there were, and what is reserved counts.
func TestReserveMaySeeTheReportFirst(t *testing.T) {
	for _, reserve := range []func(*Book, *volume.Capacity){
		func(b *Book, now *volume.Capacity) { mustReserve(t, b, "pod-2", now, draw("b", "2Gi")) },
		func(b *Book, now *volume.Capacity) { b.Adopt(now, draw("b", "2Gi")) },
	} {
		b, _ := newBook()
		var d driver
		mustReserve(t, b, "pod-1", d.reports("10Gi"), draw("a", "3Gi"))
		b.Bound("a")
		now := d.reports("7Gi")
		reserve(b, now)
		b.Reported(now)
		want(t, b, now, "b 2Gi")
	}
}

// TestNothingIsKeptOfStorageThatNobodyDrawsFrom: be it only looked at, for a claim
// that draws elsewhere already or for one that there is no room for.
func TestNothingIsKeptOfStorageThatNobodyDrawsFrom(t *testing.T) {
	b, _ := newBook()
	var d driver
	mustReserve(t, b, "pod-1", d.reports("10Gi"), draw("a", "3Gi"))
	other := d.reports("1Gi").Object().DeepCopy()
	other.StorageClassName = "other"
	b.Adopt(volume.CompileCapacity(other), draw("a", "3Gi"))
	if err := b.Reserve("pod-2", volume.CompileCapacity(other), draw("b", "3Gi")); err == nil {
		t.Error("3Gi of 1Gi were reserved")
	}
	if len(b.segments) != 1 {
		t.Errorf("%d segments are kept, 1 is drawn from", len(b.segments))
	}
}

// TestAnOlderReportIsNotNews: events may come after the object was looked at.
func TestAnOlderReportIsNotNews(t *testing.T) {
	b, _ := newBook()
	var d driver
	older, newer := d.reports("10Gi"), d.reports("7Gi")
	mustReserve(t, b, "pod-1", newer, draw("a", "3Gi"))
	b.Reported(older)
	b.Reported(newer)
	want(t, b, newer, "a 3Gi")
}

// TestAdoptedDrawsAreNotChecked: a provisioner that somebody else has set to work
// takes what it takes.
func TestAdoptedDrawsAreNotChecked(t *testing.T) {
	b, _ := newBook()
	var d driver
	pool := d.reports("5Gi")
	if b.Placed("a") {
		t.Error("a draw is known that nobody entered")
	}
	b.Adopt(pool, draw("a", "4Gi"))
	b.Adopt(pool, draw("a", "4Gi"))
	want(t, b, pool, "a 4Gi")
	if err := b.Reserve("pod-1", pool, draw("b", "2Gi")); err == nil || !strings.Contains(err.Error(), "1Gi of CSIStorageCapacity csi/pool are left, 2Gi are wanted") {
		t.Errorf("Reserve: %v", err)
	}
}

// TestWhoeverWaitsIsToldOfEveryDrawThatEnds and not of new ones.
func TestWhoeverWaitsIsToldOfEveryDrawThatEnds(t *testing.T) {
	b, clock := newBook()
	told := 0
	b.OnFree(func() {
		told++
		b.Drawn(volume.CompileCapacity(&storagev1.CSIStorageCapacity{}))
	})
	var d driver
	pool := d.reports("20Gi")
	for _, step := range []struct {
		what string
		do   func()
		told int
	}{
		{"reserved", func() {
			for _, claim := range []string{"a", "b", "c", "d"} {
				mustReserve(t, b, "pod-"+claim, pool, draw(claim, "3Gi"))
			}
		}, 0},
		{"undone", func() { b.Undo("pod-a", "a") }, 1},
		{"bound", func() { b.Bound("b") }, 0},
		{"settled", func() { clock.Step(DefaultSettle) }, 1},
		{"bound", func() { b.Bound("c") }, 0},
		{"reported", func() { b.Reported(d.reports("17Gi")) }, 1},
		{"reported the same", func() { b.Reported(d.reports("17Gi")) }, 0},
		{"given to its provisioner", func() { b.Placed("d"); b.Undo("pod-d", "d") }, 0},
		{"given back", func() { b.Unplaced("d") }, 1},
		{"reported, but nothing is drawn", func() { b.Reported(d.reports("20Gi")) }, 0},
	} {
		told = 0
		step.do()
		if told != step.told {
			t.Errorf("%s: told %d times, want %d", step.what, told, step.told)
		}
	}
}
