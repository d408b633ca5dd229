// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// rules has, for each choice of each request, the constraints that it is under. A
// choice is known by its place in slots.
type rules struct {
	slots []slot
	// first has the place of the first choice of each request, and where they end.
	first []int
	all   []rule
	// observed says whether some choice uses devices without taking them.
	observed bool
	claims   int
}

// slot is one choice of one request.
type slot struct {
	*Choice
	request, claim int
	// number is the choice's place in its request.
	number int
	// from and to are where its rules are.
	from, to int
}

// rule is a constraint as one choice sees it.
type rule struct {
	constraint int
	kind       Kind
	values     *Values
}

func (t *rules) read(p *Problem) {
	t.slots, t.first, t.all = t.slots[:0], t.first[:0], t.all[:0]
	t.observed, t.claims = false, 0
	for r := range p.Requests {
		request := &p.Requests[r]
		t.first = append(t.first, len(t.slots))
		t.claims = max(t.claims, request.Claim+1)
		for k := range request.Choices {
			choice := &request.Choices[k]
			t.observed = t.observed || choice.Observe
			t.slots = append(t.slots, slot{Choice: choice, request: r, claim: request.Claim, number: k})
		}
	}
	t.first = append(t.first, len(t.slots))
	if len(p.Constraints) == 0 {
		return
	}
	for i := range t.slots {
		t.slots[i].from = len(t.all)
		for c := range p.Constraints {
			constraint := &p.Constraints[c]
			for m := range constraint.Members {
				if member := &constraint.Members[m]; t.slot(member.Request, member.Choice) == i {
					t.all = append(t.all, rule{constraint: c, kind: constraint.Kind, values: member.Values})
				}
			}
		}
		t.slots[i].to = len(t.all)
	}
}

// of are the constraints that a choice is under.
func (t *rules) of(slot int) []rule { return t.all[t.slots[slot].from:t.slots[slot].to] }

func (t *rules) slot(request, choice int) int { return t.first[request] + choice }

// choices are how many choices a request has.
func (t *rules) choices(request int) int { return t.first[request+1] - t.first[request] }

// size is how many devices a choice takes.
func (c *Choice) size() int {
	if c.All {
		return c.Candidates.Count()
	}
	return c.Count
}

// list are the values of a device that has some.
func (v *Values) list(device int) []int32 {
	if v.One[device] == Many {
		return v.Lists[int32(device)]
	}
	return v.One[device : device+1]
}
