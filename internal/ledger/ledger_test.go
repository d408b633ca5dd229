// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/ledger"
)

// The tests use ConfigMaps: any object with a UID and a resource version will do.

// store is an informer store that shows what a test says.
type store struct {
	mutex   sync.Mutex
	objects map[string]*v1.ConfigMap
}

func (s *store) lookup(_, name string) (*v1.ConfigMap, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	obj, ok := s.objects[name]
	return obj, ok
}

func (s *store) show(objs ...*v1.ConfigMap) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, obj := range objs {
		s.objects[obj.Name] = obj
	}
}

func (s *store) hide(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.objects, name)
}

func newLedger(shown ...*v1.ConfigMap) (*ledger.Ledger[*v1.ConfigMap], *store) {
	s := &store{objects: map[string]*v1.ConfigMap{}}
	s.show(shown...)
	return ledger.New(s.lookup), s
}

// object returns the form of an object that has the given resource version; its
// UID is its name.
func object(name string, version int, holds ...string) *v1.ConfigMap {
	obj := &v1.ConfigMap{}
	obj.Name, obj.UID = name, types.UID(name)
	obj.ResourceVersion = strconv.Itoa(version)
	obj.Data = map[string]string{}
	for _, h := range holds {
		obj.Data[h] = ""
	}
	return obj
}

// contradicts: an object may not hold what another one holds, and all plans for
// one object must hold the same.
func contradicts(plan, other *v1.ConfigMap) error {
	if plan.UID == other.UID {
		if fmt.Sprint(plan.Data) != fmt.Sprint(other.Data) {
			return errors.New("planned differently")
		}
		return nil
	}
	for h := range plan.Data {
		if _, ok := other.Data[h]; ok {
			return fmt.Errorf("%s is taken by %s", h, other.Name)
		}
	}
	return nil
}

func reserve(t *testing.T, l *ledger.Ledger[*v1.ConfigMap], owner types.UID, plans ...*v1.ConfigMap) {
	t.Helper()
	if err := l.Reserve(owner, plans, contradicts); err != nil {
		t.Fatalf("Reserve for %s: %v", owner, err)
	}
}

func wantInFlight(t *testing.T, l *ledger.Ledger[*v1.ConfigMap], want ...*v1.ConfigMap) {
	t.Helper()
	got := l.InFlight()
	if len(got) != len(want) {
		t.Fatalf("in flight: got %v, want %v", names(got), names(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("in flight: got %v, want %v", names(got), names(want))
		}
	}
}

func names(objs []*v1.ConfigMap) []string {
	var all []string
	for _, obj := range objs {
		all = append(all, obj.Name+"@"+obj.ResourceVersion)
	}
	return all
}

func TestEntryLeavesWhenTheStoreHasCaughtUp(t *testing.T) {
	l, s := newLedger(object("a", 1))
	plan := object("a", 1, "gpu-0")
	reserve(t, l, "pod", plan)
	wantInFlight(t, l, plan)

	written := object("a", 3, "gpu-0")
	l.Wrote("pod", written)
	wantInFlight(t, l, written)
	if got, state := l.Latest(object("a", 1)); got != written || state != ledger.Written {
		t.Errorf("an old form in the store must not hide what was written: got %v (%s)", got.ResourceVersion, state)
	}

	s.show(object("a", 2))
	wantInFlight(t, l, written)
	s.show(object("a", 3, "gpu-0"))
	wantInFlight(t, l)
	if state := l.State("a"); state != ledger.None {
		t.Errorf("state: got %q, want none", state)
	}
}

// A caller reads the store, then the store catches up and the entry leaves, then
// the caller asks the ledger: it must not be told what it read.
func TestCallerWithAnOldFormGetsTheNewOne(t *testing.T) {
	l, s := newLedger(object("a", 1))
	old, _ := s.lookup("", "a")
	l.Wrote("pod", object("a", 2, "gpu"))
	s.show(object("a", 2, "gpu"))
	l.InFlight() // the entry leaves
	if latest, state := l.Latest(old); latest.ResourceVersion != "2" || state != ledger.None {
		t.Errorf("got version %s in state %q, want version 2 without an entry", latest.ResourceVersion, state)
	}
}

func TestEntryOfADeletedObjectLeaves(t *testing.T) {
	t.Run("gone from the store", func(t *testing.T) {
		l, s := newLedger(object("a", 1))
		l.Wrote("pod", object("a", 3, "gpu-0"))
		s.hide("a")
		wantInFlight(t, l)
	})
	t.Run("created again under the same name", func(t *testing.T) {
		l, s := newLedger(object("a", 1))
		l.Wrote("pod", object("a", 3, "gpu-0"))
		again := object("a", 5)
		again.UID = "another"
		s.show(again)
		wantInFlight(t, l)
		if got, state := l.Latest(again); got != again || state != ledger.None {
			t.Errorf("the new object inherits from the old one: got %s (%q)", got.UID, state)
		}
	})
}

func TestEntryOfAnObjectThatTheStoreHasNotSeenStays(t *testing.T) {
	l, s := newLedger()
	created := object("a", 3, "gpu-0")
	l.Wrote("pod", created)
	wantInFlight(t, l, created)
	s.show(object("a", 3, "gpu-0"))
	wantInFlight(t, l)
}

func TestReserveIsAllOrNothing(t *testing.T) {
	l, _ := newLedger(object("a", 1), object("b", 1), object("c", 1))
	taken := object("a", 1, "gpu-0")
	reserve(t, l, "pod-1", taken)
	err := l.Reserve("pod-2", []*v1.ConfigMap{object("b", 1, "gpu-1"), object("c", 1, "gpu-0")}, contradicts)
	if err == nil || err.Error() != "gpu-0 is taken by a" {
		t.Fatalf("got error %v, want that gpu-0 is taken by a", err)
	}
	wantInFlight(t, l, taken)
}

func TestOnlyOneOfManyGetsTheDevice(t *testing.T) {
	l, _ := newLedger()
	var won sync.Map
	var pods sync.WaitGroup
	for i := range 50 {
		pods.Go(func() {
			name := fmt.Sprintf("claim-%02d", i)
			if l.Reserve(types.UID(name), []*v1.ConfigMap{object(name, 1, "gpu-0")}, contradicts) == nil {
				won.Store(name, true)
			}
		})
	}
	pods.Wait()
	count := 0
	won.Range(func(_, _ any) bool { count++; return true })
	if count != 1 || len(l.InFlight()) != 1 {
		t.Errorf("%d pods got the device, %d entries; want one of each", count, len(l.InFlight()))
	}
}

func TestSharersKeepThePlanInForce(t *testing.T) {
	l, s := newLedger(object("a", 1))
	plan := object("a", 1, "gpu-0")
	reserve(t, l, "pod-1", plan)
	reserve(t, l, "pod-2", object("a", 1, "gpu-0"))
	if err := l.Reserve("pod-3", []*v1.ConfigMap{object("a", 1, "gpu-1")}, contradicts); err == nil {
		t.Error("a pod could plan something else for a shared object")
	}

	written := object("a", 2, "gpu-0")
	l.Wrote("pod-1", written)
	s.show(object("a", 3)) // somebody took it back, and pod-2 will write it again
	wantInFlight(t, l, plan)

	if last := l.Undo("pod-1", "a"); last {
		t.Error("pod-1 is told to be the last although pod-2 is still at work")
	}
	wantInFlight(t, l, plan)
	l.Wrote("pod-2", object("a", 4, "gpu-0"))
	s.show(object("a", 4, "gpu-0"))
	wantInFlight(t, l)
}

func TestUndoOfAPlan(t *testing.T) {
	l, _ := newLedger(object("a", 1))
	reserve(t, l, "pod", object("a", 1, "gpu-0"))
	for range 3 {
		if last := l.Undo("pod", "a"); !last {
			t.Error("the only owner is told not to be the last")
		}
		wantInFlight(t, l)
	}
	l.Undo("pod", "unknown")

	reserve(t, l, "pod-1", object("a", 1, "gpu-0"))
	l.Undo("pod-2", "a")
	if l.State("a") != ledger.Planned {
		t.Error("undo by a pod that owns nothing ended the plan of another")
	}
}

func TestDoubtfulEntryIsNotFreed(t *testing.T) {
	end := map[string]func(l *ledger.Ledger[*v1.ConfigMap], s *store){
		"read shows that it was written": func(l *ledger.Ledger[*v1.ConfigMap], s *store) {
			l.Settle(object("a", 2, "gpu-0"))
			s.show(object("a", 2, "gpu-0"))
		},
		"read shows that it was not written": func(l *ledger.Ledger[*v1.ConfigMap], _ *store) { l.Settle(object("a", 1)) },
		"object is gone":                     func(l *ledger.Ledger[*v1.ConfigMap], _ *store) { l.Gone("a") },
	}
	for name, settle := range end {
		t.Run(name, func(t *testing.T) {
			l, s := newLedger(object("a", 1))
			plan := object("a", 1, "gpu-0")
			reserve(t, l, "pod", plan)
			l.Doubt("a")
			l.Undo("pod", "a")
			wantInFlight(t, l, plan)
			if l.State("a") != ledger.Doubtful {
				t.Errorf("state: got %q, want Doubtful", l.State("a"))
			}
			s.show(object("a", 1))
			wantInFlight(t, l, plan)
			if err := l.Reserve("other", []*v1.ConfigMap{object("b", 1, "gpu-0")}, contradicts); err == nil {
				t.Error("the device of a doubtful entry was given away")
			}
			if err := l.Reserve("pod", []*v1.ConfigMap{object("a", 1, "gpu-0")}, contradicts); !errors.Is(err, ledger.ErrUnsettled) {
				t.Errorf("joining a doubtful entry that nobody owns: got %v, want ErrUnsettled", err)
			}
			settle(l, s)
			wantInFlight(t, l)
			reserve(t, l, "pod", object("a", 2, "gpu-0"))
		})
	}
}

func TestTakingBackIsDoubtfulUntilAnswered(t *testing.T) {
	l, s := newLedger(object("a", 1))
	reserve(t, l, "pod", object("a", 1, "gpu-0"))
	l.Wrote("pod", object("a", 2, "gpu-0"))
	if last := l.Undo("pod", "a"); !last {
		t.Fatal("the only owner is told not to be the last")
	}
	if l.State("a") != ledger.Doubtful {
		t.Fatalf("state: got %q, want Doubtful", l.State("a"))
	}
	s.show(object("a", 2, "gpu-0"))
	if len(l.InFlight()) != 1 {
		t.Error("the entry left before the API server had answered")
	}
	back := object("a", 3)
	l.Settle(back)
	if got, state := l.Latest(object("a", 2, "gpu-0")); got != back || state != ledger.Written {
		t.Errorf("got version %s (%s), want the one that was taken back", got.ResourceVersion, state)
	}
	reserve(t, l, "pod", object("a", 3))
}

// A read for an earlier doubt may come back after another pod has written the
// object and lost the answer to its next write. Only a newer read ends that doubt.
func TestLateReadDoesNotEndANewerDoubt(t *testing.T) {
	l, _ := newLedger(object("a", 1))
	plan := object("a", 1, "gpu-0")
	reserve(t, l, "pod-1", plan)
	reserve(t, l, "pod-2", object("a", 1, "gpu-0"))
	l.Wrote("pod-1", object("a", 3, "gpu-0"))
	l.Doubt("a")
	l.Undo("pod-1", "a")
	l.Undo("pod-2", "a")

	l.Settle(object("a", 2))
	wantInFlight(t, l, plan)
	if err := l.Reserve("other", []*v1.ConfigMap{object("b", 1, "gpu-0")}, contradicts); err == nil {
		t.Error("the device of a doubtful entry was given away")
	}
	l.Settle(object("a", 4))
	if l.State("a") == ledger.Doubtful {
		t.Error("a newer read did not end the doubt")
	}
}

// What was taken back after the store had caught up must not look taken for as long
// as the store takes to see that.
func TestTakingBackWithoutAnEntryIsSeenAtOnce(t *testing.T) {
	l, s := newLedger(object("a", 2, "gpu-0"))
	back := object("a", 3)
	l.Settle(back)
	if got, state := l.Latest(object("a", 2, "gpu-0")); got != back || state != ledger.Written {
		t.Errorf("got version %s (%s), want the one that was taken back", got.ResourceVersion, state)
	}
	if last := l.Undo("pod", "a"); !last {
		t.Error("an entry that nobody owns has an owner")
	}
	s.show(back)
	wantInFlight(t, l)

	s.hide("a")
	l.Settle(object("a", 4, "gpu-0"))
	wantInFlight(t, l) // it is gone, and nothing would ever end an entry
}

func TestPlanAndKnownForm(t *testing.T) {
	l, _ := newLedger(object("a", 1))
	plan := object("a", 1, "gpu-0")
	reserve(t, l, "pod", plan)
	stored := object("a", 2)
	known, planned, state := l.Plan(stored)
	if known != stored || planned != plan || state != ledger.Planned {
		t.Errorf("planned: got versions %s, %s (%s)", known.ResourceVersion, planned.ResourceVersion, state)
	}
	written := object("a", 3, "gpu-0")
	l.Wrote("pod", written)
	known, planned, state = l.Plan(stored)
	if known != written || planned != written || state != ledger.Written {
		t.Errorf("written: got versions %s, %s (%s)", known.ResourceVersion, planned.ResourceVersion, state)
	}
}

// An object that is planned under a made-up UID is one entry all the time, also
// when it has been created and its status is not written.
func TestPlanOfAnObjectThatIsToBeCreated(t *testing.T) {
	l, s := newLedger()
	planned := object("planned", 0, "gpu-0")
	reserve(t, l, "pod", planned)
	created := object("a", 1, "gpu-0")
	l.Replace(planned.UID, created)
	l.Replace("nobody", object("nobody", 1))
	if got := l.InFlight(); len(got) != 1 || got[0] != created {
		t.Errorf("in flight after it was created: %v, want the plan for it alone", names(got))
	}
	if state := l.State(created.UID); state != ledger.Planned {
		t.Errorf("state after it was created: %s, want Planned", state)
	}
	if err := l.Reserve("other", []*v1.ConfigMap{object("b", 1, "gpu-0")}, contradicts); err == nil {
		t.Error("another object got the device of one that was just created")
	}
	l.Wrote("pod", object("a", 2, "gpu-0"))
	s.show(object("a", 2, "gpu-0"))
	wantInFlight(t, l)
}

func TestConcurrentUse(t *testing.T) {
	l, s := newLedger()
	var pods sync.WaitGroup
	for i := range 20 {
		pods.Go(func() {
			owner := types.UID(fmt.Sprintf("pod-%d", i))
			name := fmt.Sprintf("claim-%d", i%5)
			for version := 1; version < 50; version++ {
				s.show(object(name, version))
				if l.Reserve(owner, []*v1.ConfigMap{object(name, version, name)}, contradicts) == nil {
					if version%3 == 0 {
						l.Wrote(owner, object(name, version+1, name))
					}
					if version%7 == 0 {
						l.Doubt(types.UID(name))
					}
				}
				l.InFlight()
				l.Latest(object(name, version))
				if l.Undo(owner, types.UID(name)) {
					l.Settle(object(name, version+2))
				}
				l.Undo(owner, types.UID(name))
			}
		})
	}
	pods.Wait()
	for i := range 5 {
		name := fmt.Sprintf("claim-%d", i)
		l.Settle(object(name, 1000))
		s.show(object(name, 1000))
	}
	if left := l.InFlight(); len(left) != 0 {
		t.Errorf("entries left after everything was undone and settled: %v", names(left))
	}
}
