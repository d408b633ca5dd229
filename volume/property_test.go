// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/property"
)

func TestMain(m *testing.M) { property.Main(m) }

// A model is one class, one node and one pod, in numbers. Its methods are the
// naive version of the rules, its text the scenario for the real one.
type model struct {
	claims      []modelClaim
	volumes     []modelVolume
	provisions  bool
	reported    bool
	total, most int // of the one capacity object, 0 if not set
}

type modelClaim struct {
	size   int
	picky  bool // has a selector
	pinned int  // 0 no, 1 to the node, 2 to another
}

type modelVolume struct {
	size               int
	labelled, far, bad bool // bad: not available
	keptFor            int  // claim, or nobody, or somebody
}

const (
	nobody   = -1
	somebody = -2
	// Where a claim goes, if not on a volume.
	provisioned = -1
	unplaced    = -2
)

func drawModel(t *rapid.T) model {
	size := rapid.IntRange(1, 4)
	var m model
	m.claims = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelClaim {
		c := modelClaim{size: size.Draw(t, "size"), picky: rapid.IntRange(0, 3).Draw(t, "picky") == 0}
		if rapid.IntRange(0, 7).Draw(t, "pin?") == 0 {
			c.pinned = rapid.IntRange(1, 2).Draw(t, "pin")
		}
		return c
	}), 1, 4).Draw(t, "claims")
	m.volumes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) modelVolume {
		v := modelVolume{size: size.Draw(t, "size"), labelled: rapid.Bool().Draw(t, "labelled"), keptFor: nobody}
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			v.far = true
		case 1:
			v.bad = true
		case 2:
			v.keptFor = somebody
		case 3:
			v.keptFor = rapid.IntRange(0, len(m.claims)-1).Draw(t, "kept for")
		}
		return v
	}), 0, 5).Draw(t, "volumes")
	m.provisions = rapid.Bool().Draw(t, "provisions")
	m.reported = rapid.Bool().Draw(t, "reported")
	m.total = rapid.IntRange(0, 8).Draw(t, "total")
	m.most = rapid.IntRange(0, 4).Draw(t, "most")
	return m
}

func (m *model) text() []string {
	lines := []string{"node n1", "node n2", "pod p claims=" + strings.Join(m.names(), ",")}
	class := "class c wait provisioner=kubernetes.io/no-provisioner"
	if m.provisions {
		class = "class c wait provisioner=csi"
	}
	driver := "driver csi"
	if m.reported {
		driver += " reports"
	}
	capacity := "capacity cap class=c at=kubernetes.io/hostname=n1"
	if m.total > 0 {
		capacity += fmt.Sprintf(" size=%d", m.total)
	}
	if m.most > 0 {
		capacity += fmt.Sprintf(" max=%d", m.most)
	}
	lines = append(lines, class, driver, capacity)
	for i, c := range m.claims {
		claim := fmt.Sprintf("pvc c%d class=c size=%d", i, c.size)
		if c.picky {
			claim += " select=x=1"
		}
		if c.pinned > 0 {
			claim += fmt.Sprintf(" selected-node=n%d", c.pinned)
		}
		lines = append(lines, claim)
	}
	for j, v := range m.volumes {
		volume := fmt.Sprintf("pv v%d class=c size=%d", j, v.size)
		if v.labelled {
			volume += " labels=x=1"
		}
		if v.far {
			volume += " at=kubernetes.io/hostname=n2"
		}
		if v.bad {
			volume += " phase=Released"
		}
		switch {
		case v.keptFor == somebody:
			volume += " claim=somebody"
		case v.keptFor >= 0:
			volume += fmt.Sprintf(" claim=c%d", v.keptFor)
		}
		lines = append(lines, volume)
	}
	return lines
}

func (m *model) names() []string {
	var names []string
	for i := range m.claims {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	return names
}

// keeps says that a volume is kept for the claim, reachable or not.
func (m *model) keeps(i int) bool {
	return slices.ContainsFunc(m.volumes, func(v modelVolume) bool { return v.keptFor == i && v.size >= m.claims[i].size })
}

// legal says whether the placement breaks no rule but that of the sum. It holds
// a volume, provisioned or unplaced for each claim.
func (m *model) legal(placement []int) bool {
	for i, j := range placement {
		switch {
		case j == unplaced:
			return false
		case j == provisioned && !m.provisionable(i):
			return false
		case j >= 0 && (slices.Contains(placement[:i], j) || !m.suits(i, m.volumes[j])):
			return false
		}
	}
	return true
}

func (m *model) provisionable(i int) bool {
	c := m.claims[i]
	switch {
	case !m.provisions || m.keeps(i) || c.pinned == 2:
		return false
	case c.pinned == 1:
		return true
	case c.picky:
		return false
	case !m.reported:
		return true
	}
	return m.total > 0 && m.most == 0 || m.most >= c.size
}

func (m *model) suits(i int, v modelVolume) bool {
	c := m.claims[i]
	if v.far || v.size < c.size {
		return false
	}
	if m.keeps(i) {
		return v.keptFor == i
	}
	return v.keptFor == nobody && !v.bad && c.pinned == 0 && (!c.picky || v.labelled)
}

// within says whether the claims that are to be provisioned fit into the
// capacity together, beside what those draw that are being provisioned already,
// if it can have room for them at all.
func (m *model) within(placement []int) bool {
	if !m.provisions || !m.reported || m.total == 0 {
		return true
	}
	drawn, open := 0, 0
	for i, c := range m.claims {
		switch {
		case c.pinned == 1 && c.size <= m.total && (m.most == 0 || c.size <= m.most):
			drawn += c.size
		case c.pinned == 0 && placement[i] == provisioned:
			open += c.size
		}
	}
	return open == 0 || drawn+open <= m.total
}

// best returns the placement that the documented rule chooses, by trying all.
func (m *model) best() []int {
	var best, bestRank []int
	placement := make([]int, len(m.claims))
	var try func(i int)
	try = func(i int) {
		if i < len(placement) {
			for j := provisioned; j < len(m.volumes); j++ {
				placement[i] = j
				try(i + 1)
			}
			return
		}
		if !m.legal(placement) || !m.within(placement) {
			return
		}
		if rank := m.rank(placement); best == nil || slices.Compare(rank, bestRank) < 0 {
			best, bestRank = slices.Clone(placement), rank
		}
	}
	try(0)
	return best
}

// rank is the rule as numbers, smaller is better: most claims on volumes, least
// waste, the largest claims on volumes, the first of equal volumes, and the
// smallest claim on the first of them.
func (m *model) rank(placement []int) []int {
	onVolumes, waste := 0, 0
	var chosen []int
	for i, j := range placement {
		if j >= 0 {
			onVolumes++
			waste += m.volumes[j].size - m.claims[i].size
			chosen = append(chosen, m.volumes[j].size*100+j)
		}
	}
	slices.Sort(chosen)
	order := make([]int, len(placement))
	for i := range order {
		order[i] = i
	}
	rank := []int{-onVolumes, waste}
	bySize := make([]int, len(placement))
	for i := range bySize {
		bySize[i] = i
	}
	slices.SortStableFunc(bySize, func(a, b int) int { return cmp.Compare(m.claims[b].size, m.claims[a].size) })
	for _, i := range bySize {
		rank = append(rank, -min(placement[i], 0))
	}
	rank = append(rank, chosen...)
	slices.Sort(bySize)
	slices.SortStableFunc(bySize, func(a, b int) int { return cmp.Compare(m.claims[a].size, m.claims[b].size) })
	for _, i := range bySize {
		if j := placement[i]; j >= 0 {
			rank = append(rank, m.volumes[j].size*100+j)
		}
	}
	return rank
}

// compiled is a model as the real thing.
type compiled struct {
	problem *Problem
	node    *v1.Node
	facts   Facts
	pod     *v1.Pod
}

func compile(t *rapid.T, lines []string) (compiled, bool) {
	var s scenario
	if err := s.add(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	c := compiled{node: s.nodes[slices.IndexFunc(s.nodes, func(n *v1.Node) bool { return n.Name == "n1" })], facts: NewFacts(s.objects...), pod: s.pods["p"]}
	p, r := Compile(c.pod, c.facts, Options{})
	c.problem = p
	return c, r == nil
}

// TestSolveFindsWhatBruteForceFinds: a plan is found exactly when there is one,
// it is the one that the documented rule chooses, and Verify accepts it.
func TestSolveFindsWhatBruteForceFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		want := m.best()
		c, ok := compile(t, m.text())
		if !ok {
			if want != nil {
				t.Fatalf("Compile refuses, but there is %v", want)
			}
			return
		}
		plan, r := c.problem.Solve(c.node)
		if (r == nil) != (want != nil) {
			t.Fatalf("Solve: %v, %v; brute force: %v", plan, r, want)
		}
		if full := c.problem.Explain(c.node); !slices.Equal(codes(r), codes(full)) {
			t.Fatalf("Solve refuses with %v, Explain with %v", codes(r), codes(full))
		}
		if r != nil {
			return
		}
		if err := Verify(c.problem, c.node, plan); err != nil {
			t.Fatalf("Verify: %v", err)
		}
		if got := m.placementOf(plan); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func (m *model) placementOf(plan Plan) []int {
	placement := make([]int, len(m.claims))
	for i := range placement {
		placement[i] = unplaced
	}
	for _, d := range plan.Provisions() {
		placement[slices.Index(m.names(), d.Claim.Name)] = provisioned
	}
	for _, b := range plan.Bindings() {
		placement[slices.Index(m.names(), b.Claim.Name)] = slices.IndexFunc(upTo(len(m.volumes)), func(j int) bool {
			return b.Volume.Name == fmt.Sprintf("v%d", j)
		})
	}
	return placement
}

// TestOrderOfInputDoesNotMatter: neither of the pod's claims nor of the objects.
func TestOrderOfInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		lines := m.text()
		first, ok := compile(t, lines)
		shuffled := rapid.Permutation(lines).Draw(t, "order")
		pod := slices.IndexFunc(shuffled, func(s string) bool { return strings.HasPrefix(s, "pod ") })
		shuffled[pod] = "pod p claims=" + strings.Join(rapid.Permutation(m.names()).Draw(t, "claims"), ",")
		second, okToo := compile(t, shuffled)
		if ok != okToo {
			t.Fatalf("Compile accepts one order only")
		}
		if !ok {
			return
		}
		a, refusedA := first.problem.Solve(first.node)
		b, refusedB := second.problem.Solve(second.node)
		if a.String() != b.String() || (refusedA == nil) != (refusedB == nil) {
			t.Fatalf("%v %v, and in another order %v %v", a, refusedA, b, refusedB)
		}
	})
}

// TestVerifyTellsLegalFromIllegal: Verify accepts an arbitrary plan exactly when
// it breaks no rule.
func TestVerifyTellsLegalFromIllegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		c, ok := compile(t, m.text())
		if !ok {
			return
		}
		placement := m.best()
		if placement == nil {
			placement = make([]int, len(m.claims))
		}
		mutations := rapid.IntRange(0, 2).Draw(t, "mutations")
		for range mutations {
			i := rapid.IntRange(0, len(placement)-1).Draw(t, "claim")
			placement[i] = rapid.IntRange(unplaced, len(m.volumes)-1).Draw(t, "to")
		}
		if len(m.volumes) == 0 {
			for i := range placement {
				placement[i] = min(placement[i], provisioned)
			}
		}
		err := Verify(c.problem, c.node, m.planOf(c, placement))
		if legal := m.legal(placement) && m.within(placement); legal != (err == nil) {
			t.Fatalf("placement %v: legal %v, Verify: %v", placement, legal, err)
		}
	})
}

func (m *model) planOf(c compiled, placement []int) Plan {
	var plan Plan
	for i, j := range placement {
		claim := c.facts.Claim(namespace, fmt.Sprintf("c%d", i))
		switch {
		case j >= 0:
			plan.bindings = append(plan.bindings, Binding{Claim: claim, Volume: c.facts.Volume(fmt.Sprintf("v%d", j)).PV()})
		case j == provisioned:
			var capacity *storagev1.CSIStorageCapacity
			if m.reported && m.claims[i].pinned == 0 {
				capacity = c.facts.Capacities("c")[0].Object()
			}
			plan.provisions = append(plan.provisions, Provision{Claim: claim, Node: "n1", Capacity: capacity})
		}
	}
	return plan
}
