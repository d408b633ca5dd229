// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/device"
	"github.com/berth-scheduler/berth/reason"
)

var small = size{pools: 2, devicesPerSlice: 3, claims: 2, requests: 3, count: 2}

// A plan is found exactly when trying everything finds one, it is the first in
// order, and it breaks no rule.
func TestSolveAgreesWithTryingEverything(t *testing.T) {
	shared := device.NewSelectors(100)
	possible := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, small)
		problem := w.compile(t, device.Options{Features: features, Strategy: device.InOrder, Selectors: shared})
		node := w.view().Node(w.node)
		plan, refused := problem.Solve(node)
		want := w.tryEverything()
		if refused != nil {
			if want != nil {
				t.Fatalf("refused (%v), but there is %v", refused, want)
			}
			return
		}
		possible++
		if diff := cmp.Diff(want, chosen(plan.Results(shareIDs()))); diff != "" {
			t.Fatalf("-first in order +plan:\n%s", diff)
		}
		if err := device.Verify(problem, node, plan); err != nil {
			t.Fatalf("the plan breaks a rule: %v", err)
		}
	})
	if possible == 0 {
		t.Fatal("no case was possible")
	}
}

// With everything that the API has, a plan is found exactly when there are devices
// that Verify has nothing to say against, and it has the first of these.
func TestSolveFindsTheFirstThatVerifyAllows(t *testing.T) {
	shared := device.NewSelectors(100)
	possible, impossible, unknown := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawRichWorld(t, size{pools: 2, devicesPerSlice: 6, claims: 2, requests: 2, count: 2})
		problem := w.compile(t, device.Options{Features: everyFeature(), Strategy: device.InOrder, Selectors: shared})
		node := w.view().Node(w.node)
		plan, refused := problem.Solve(node)
		want, done := device.FirstAllowed(problem, node, 3000)
		switch {
		case !done:
			unknown++
			return
		case refused != nil && want != nil:
			t.Fatalf("refused (%v), but there is %v", refused, want)
		case refused != nil:
			impossible++
			return
		}
		possible++
		var got []string
		for _, result := range plan.Results(shareIDs()) {
			for _, r := range result.Devices.Results {
				got = append(got, fmt.Sprintf("%s %s/%s/%s", r.Request, r.Driver, r.Pool, r.Device))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-first allowed +plan:\n%s", diff)
		}
	})
	t.Logf("%d possible, %d impossible, %d too large to try", possible, impossible, unknown)
	if possible == 0 || impossible == 0 || unknown > possible {
		t.Fatal("not enough was tried")
	}
}

// Explain gives the same answer as Solve, and a reason with words.
func TestExplainAgreesWithSolve(t *testing.T) {
	shared := device.NewSelectors(100)
	rapid.Check(t, func(t *rapid.T) {
		w := drawRichWorld(t, small)
		problem := w.compile(t, device.Options{Features: everyFeature(), Strategy: drawStrategy(t), Selectors: shared})
		node := w.view().Node(w.node)
		_, refused := problem.Solve(node)
		explained := problem.Explain(node)
		if (refused == nil) != (explained == nil) {
			t.Fatalf("Solve says %v, Explain says %v", refused, explained)
		}
		if refused == nil {
			return
		}
		short := []any{refused.Code, refused.Node, refused.Claim, refused.Request}
		long := []any{explained.Code, explained.Node, explained.Claim, explained.Request}
		if diff := cmp.Diff(short, long); diff != "" {
			t.Fatalf("-Solve +Explain:\n%s", diff)
		}
		for _, r := range explained.All() {
			if d := r.Facts.Devices; d != nil && (d.Match > d.InClass || d.Free > d.Match) {
				t.Fatalf("%s: %d in class, %d match, %d free", r.Code, d.InClass, d.Match, d.Free)
			}
			wanted, had := r.Facts.Wanted, r.Facts.Had
			if r.Code == reason.NotEnoughDevices && r.Facts.Devices.Held == nil && wanted != nil && had != nil && had.Cmp(*wanted) >= 0 {
				t.Fatalf("%s wants %s, has %s and nobody holds any", r.Code, wanted, had)
			}
		}
	})
}

// The order in which slices, holders and pools are passed in means nothing.
func TestOrderOfInputDoesNotMatter(t *testing.T) {
	shared := device.NewSelectors(100)
	rapid.Check(t, func(t *rapid.T) {
		w := drawRichWorld(t, size{pools: 3, devicesPerSlice: 4, claims: 2, requests: 3, count: 3})
		problem := w.compile(t, device.Options{Features: everyFeature(), Strategy: drawStrategy(t), Selectors: shared})
		first, firstRefused := problem.Solve(w.view().Node(w.node))
		random := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		random.Shuffle(len(w.slices), func(i, j int) { w.slices[i], w.slices[j] = w.slices[j], w.slices[i] })
		random.Shuffle(len(w.holding), func(i, j int) { w.holding[i], w.holding[j] = w.holding[j], w.holding[i] })
		second, secondRefused := problem.Solve(w.view().Node(w.node))
		if diff := cmp.Diff(firstRefused, secondRefused); diff != "" {
			t.Fatalf("-first +shuffled:\n%s", diff)
		}
		if diff := cmp.Diff(first.Results(shareIDs()), second.Results(shareIDs())); firstRefused == nil && diff != "" {
			t.Fatalf("-first +shuffled:\n%s", diff)
		}
	})
}

// A search that runs out of steps says so, or has a plan that breaks no rule. It
// never says that there is none.
func TestSmallBudgetNeverLies(t *testing.T) {
	shared := device.NewSelectors(100)
	rapid.Check(t, func(t *rapid.T) {
		w := drawRichWorld(t, size{pools: 3, devicesPerSlice: 4, claims: 2, requests: 3, count: 3})
		node := w.view().Node(w.node)
		full := w.compile(t, device.Options{Features: everyFeature(), Strategy: drawStrategy(t), Selectors: shared})
		tight := w.compile(t, device.Options{Features: everyFeature(), Strategy: drawStrategy(t), Selectors: shared, Budget: rapid.Int64Range(1, 200).Draw(t, "budget")})
		_, refused := full.Solve(node)
		plan, cut := tight.Solve(node)
		switch {
		case cut == nil:
			if err := device.Verify(tight, node, plan); err != nil {
				t.Fatalf("the plan breaks a rule: %v", err)
			}
		case cut.Code == reason.SearchEnded:
		case refused == nil:
			t.Fatalf("refused with %v, but it fits", cut)
		}
	})
}

// What is taken back leaves no trace: after a plan has been reserved and undone, the
// plan is the same. While it is reserved, a plan for the same claims breaks no rule
// either.
func TestUndoRestores(t *testing.T) {
	shared := device.NewSelectors(100)
	rapid.Check(t, func(t *rapid.T) {
		w := drawRichWorld(t, size{pools: 2, devicesPerSlice: 4, claims: 2, requests: 2, count: 2})
		problem := w.compile(t, device.Options{Features: everyFeature(), Strategy: drawStrategy(t), Selectors: shared})
		first, refused := problem.Solve(w.view().Node(w.node))
		if refused != nil {
			return
		}
		before := w.holding
		results := first.Results(shareIDs())
		for i, claim := range problem.Open() {
			w.holding = append(slices.Clone(w.holding), holderOf("plan-"+claim.Name, results[i].Devices.Results...))
		}
		node := w.view().Node(w.node)
		if plan, refused := problem.Solve(node); refused == nil {
			if err := device.Verify(problem, node, plan); err != nil {
				t.Fatalf("the plan beside a reserved one breaks a rule: %v", err)
			}
		}
		w.holding = before
		second, refused := problem.Solve(w.view().Node(w.node))
		if refused != nil {
			t.Fatalf("after undo: %v", refused)
		}
		if diff := cmp.Diff(results, second.Results(shareIDs())); diff != "" {
			t.Fatalf("-first +after undo:\n%s", diff)
		}
	})
}

// InOrder and Packed find a plan for the same problems.
func TestStrategiesAgreeOnWhatIsPossible(t *testing.T) {
	shared := device.NewSelectors(100)
	possible := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawRichWorld(t, size{pools: 3, devicesPerSlice: 4, claims: 2, requests: 3, count: 3})
		node := w.view().Node(w.node)
		packed := w.compile(t, device.Options{Features: everyFeature(), Selectors: shared, TopologyAttributes: attributeNames[:2]})
		inOrder := w.compile(t, device.Options{Features: everyFeature(), Selectors: shared, Strategy: device.InOrder})
		one, oneRefused := packed.Solve(node)
		other, otherRefused := inOrder.Solve(node)
		if diff := cmp.Diff(oneRefused, otherRefused); diff != "" {
			t.Fatalf("-packed +in order:\n%s", diff)
		}
		if oneRefused != nil {
			return
		}
		possible++
		for _, err := range []error{device.Verify(packed, node, one), device.Verify(inOrder, node, other)} {
			if err != nil {
				t.Fatalf("the plan breaks a rule: %v", err)
			}
		}
	})
	if possible == 0 {
		t.Fatal("no case was possible")
	}
}

func drawStrategy(t *rapid.T) device.Strategy {
	return rapid.SampledFrom([]device.Strategy{device.Packed, device.InOrder}).Draw(t, "strategy")
}

// slot is one device that a request wants.
type slot struct {
	claim, request int
	candidates     []candidate
}

type candidate struct {
	id         reason.Device
	attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
}

// tryEverything is the naive search: every device for every request, in order,
// with all rules written down once more. It returns nil if nothing works.
func (w *world) tryEverything() []string {
	var slots []slot
	perClaim := make([]int, len(w.claims))
	for c, claim := range w.claims {
		for r := range claim.Spec.Devices.Requests {
			exact := claim.Spec.Devices.Requests[r].Exactly
			candidates, all, ok := w.candidates(exact)
			count := int(exact.Count)
			if exact.AllocationMode == resourceapi.DeviceAllocationModeAll {
				if !ok || all == 0 || len(candidates) != all {
					return nil
				}
				count = all
			}
			perClaim[c] += count
			if perClaim[c] > resourceapi.AllocationResultsMaxSize {
				return nil
			}
			for range count {
				slots = append(slots, slot{claim: c, request: r, candidates: candidates})
			}
		}
	}
	picked := make([]int, 0, len(slots))
	used := map[reason.Device]bool{}
	if !w.fill(slots, &picked, used) {
		return nil
	}
	var lines []string
	for i, pick := range picked {
		name := w.claims[slots[i].claim].Spec.Devices.Requests[slots[i].request].Name
		lines = append(lines, fmt.Sprintf("claim %d %s %s", slots[i].claim, name, slots[i].candidates[pick].id))
	}
	return lines
}

func (w *world) fill(slots []slot, picked *[]int, used map[reason.Device]bool) bool {
	i := len(*picked)
	if i == len(slots) {
		return true
	}
	from := 0
	if i > 0 && slots[i-1].claim == slots[i].claim && slots[i-1].request == slots[i].request {
		from = (*picked)[i-1] + 1
	}
	for c := from; c < len(slots[i].candidates); c++ {
		id := slots[i].candidates[c].id
		if used[id] {
			continue
		}
		*picked = append(*picked, c)
		used[id] = true
		if w.constraintsHold(slots, *picked) && w.fill(slots, picked, used) {
			return true
		}
		*picked = (*picked)[:i]
		delete(used, id)
	}
	return false
}
