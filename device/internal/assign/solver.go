// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// Solver answers Problems, one after the other. It keeps its memory, so that the
// next answer costs none. The zero value is ready; it is for one goroutine.
type Solver struct {
	problem *Problem
	rules   rules
	steps   int64
	budget  int64
	answer  Answer

	// root is the state up to which the answer is decided.
	root state
	// witness completes the root, trial is what the last relaxation found; fallback is
	// another witness, which might be the better one.
	witness, trial, fallback witness
	// frames are the states of the branches that the search is in, one within the
	// other; probe is for trying something.
	frames []*frame
	probe  state

	// What the search knows about the state that it looks at.
	wants       wants
	uses        uses
	clusters    clusters
	combination combination
	matching    matching
	seating     seating
	pack        packing
	// plain says that devices are used once, and nothing is counted but them;
	// everything are all devices.
	plain      bool
	everything Set
	scratch    Set
	got        [][]int32
	quota      []int32
	given      []int32
	counts     tally

	// What the search remembers until it ends: what clusters can hold, and which
	// states nothing completes.
	fills    fills
	filled   memory
	failed   memory
	portrait portrait
	// best is the price of the witness.
	best []int64
}

// answer is what the search finds out about a state.
type answer int

const (
	never answer = iota
	yes
	ended
)

// Solve looks for the solution of a problem that the strategy wants, in at most
// about budget steps. If there is one, Answer has it.
func (s *Solver) Solve(p *Problem, strategy Strategy, budget int64) Verdict {
	s.begin(p, budget)
	if s.starved() {
		return Impossible
	}
	fits := s.firstFit()
	switch {
	case fits && (strategy == InOrder || s.indifferent()):
		return Found
	case s.rules.observed && s.rules.claims > maxSeats:
		return Ended
	case fits:
		s.keepFirstFit()
		s.prepare()
	default:
		s.prepare()
		switch s.complete(&s.root, 0) {
		case never:
			return Impossible
		case ended:
			return Ended
		}
		s.witness.copy(&s.trial)
	}
	if strategy == Packed {
		return s.packed()
	}
	return s.inOrder()
}

// Answer is what the last Solve found. It is good until the next one.
func (s *Solver) Answer() *Answer { return &s.answer }

// Steps is how many steps the last Solve took. A step is a few nanoseconds: a
// device looked at for a request, a word of a set, a resource of a row.
func (s *Solver) Steps() int64 { return s.steps }

func (s *Solver) ended() bool { return s.steps > s.budget }

// begin is what every Solve needs, prepare what a search needs that is not over
// with the first fit.
func (s *Solver) begin(p *Problem, budget int64) {
	s.problem, s.budget, s.steps = p, budget, 0
	s.rules.read(p)
	s.root.reset(p, &s.rules)
	s.answer.reset(len(p.Requests))
}

func (s *Solver) prepare() {
	p := s.problem
	s.root.reset(p, &s.rules)
	s.answer.reset(len(p.Requests))
	s.matching.steps = &s.steps
	s.uses.number(p)
	s.portrait.number(p)
	s.fills.forget()
	s.filled.forget()
	s.failed.forget()
	s.pack.stop()
	s.scratch = zeroed(s.scratch, Words(p.Devices))
	s.everything = zeroed(s.everything, Words(p.Devices))
	for d := range p.Devices {
		s.everything.Add(d)
	}
	s.plain = !s.rules.observed && p.Shared.Count() == 0 && !s.counted()
}

// counted says whether anything is counted but devices.
func (s *Solver) counted() bool {
	for _, c := range s.problem.Constraints {
		if c.Kind == Distinct {
			return true
		}
	}
	for i := range s.rules.slots {
		if s.rules.slots[i].Draw != nil {
			return true
		}
	}
	for _, charge := range s.problem.Charge {
		if len(charge) > 0 {
			return true
		}
	}
	return false
}

func (a *Answer) reset(requests int) {
	a.Choices = zeroed(a.Choices, requests)
	if cap(a.Devices) < requests {
		a.Devices = append(a.Devices[:cap(a.Devices)], make([][]int32, requests-cap(a.Devices))...)
	}
	a.Devices = a.Devices[:requests]
	for r := range a.Devices {
		a.Devices[r] = a.Devices[r][:0]
	}
}
