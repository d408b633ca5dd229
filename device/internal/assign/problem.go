// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign

// Problem is one question: which devices does each request get? The caller owns
// it and may use its memory again for the next one; nothing here changes or keeps
// it. Devices, counters, requests and values are numbers; devices are numbered in
// the order in which they are offered.
type Problem struct {
	// Devices is how many there are.
	Devices int
	// Left is what is left of each counter. It may be negative: then nothing that
	// takes any of it fits.
	Left []int64
	// Charge is, for each device, what its use takes from counters: once, however
	// many requests share the device. nil, or an empty list, is nothing. It is
	// empty for a device in use that may be shared, as that has been paid for.
	Charge [][]Amount
	// Shared are the devices that several requests may use at once, each request
	// at most once. Any other device is used once.
	Shared Set
	// Idle are the devices that nobody uses, wanted here or not: what is left of
	// them is what Packed keeps useful. It counts only there.
	Idle Set
	// Topology has, per level, the more important level first, the group of each
	// device, or None. It counts only for Packed.
	Topology [][]int32

	Requests    []Request
	Constraints []Constraint
	// Limit is how many devices all requests of one claim may have together.
	Limit int
}

// Amount is a part of a counter. Value is not negative.
type Amount struct {
	Counter int32
	Value   int64
}

// Request is met by one of its choices, the earlier the better.
type Request struct {
	Claim   int
	Choices []Choice
}

// Choice wants Count of its candidates or, with All, every one of them, of which
// there has to be at least one.
type Choice struct {
	Count int
	All   bool
	// Candidates are the devices that could be used if the choice was alone.
	Candidates Set
	// Observe uses devices without taking them: it charges and draws nothing, and
	// excludes no other use but that by the same claim (a shared device not even
	// that).
	Observe bool
	// Draw is, per device, what this choice takes from counters each time it uses
	// it, on top of Charge. nil is nothing for every device.
	Draw [][]Amount
}

// Constraint is about the values of the devices that its members get.
type Constraint struct {
	Kind Kind
	// Members are the choices under the constraint. Others do not concern it.
	Members []Member
}

// Kind says what a constraint wants of the values.
type Kind uint8

const (
	// Match wants a value that every device has.
	Match Kind = iota
	// Distinct wants no value twice.
	Distinct
)

// Member is a choice under a constraint. The same device may have other values for
// another member.
type Member struct {
	Request, Choice int
	Values          *Values
}

// Values are those of each device.
type Values struct {
	// One is the value of each device, None if it has none, which no constraint
	// allows, Exempt if the constraint does not concern the device, or Many if
	// Lists has its values.
	One []int32
	// Lists may be nil. A list is not empty and has no value twice.
	Lists map[int32][]int32
}

// What a device may have in place of a value or a group. These are not negative,
// and small: memory is needed for all numbers up to the largest.
const (
	None   int32 = -1
	Exempt int32 = -2
	Many   int32 = -3
)

// Strategy says which of all solutions is the answer.
type Strategy uint8

const (
	// InOrder is the solution that comes first: request by request, in the order of
	// (first choice, its devices in order, second choice, ...).
	InOrder Strategy = iota
	// Packed has the first choices that can be had, then leaves what is most useful.
	Packed
)

// Verdict says how a search ended.
type Verdict uint8

const (
	// Impossible: there is no solution.
	Impossible Verdict = iota
	// Found: the answer is the one that the strategy wants.
	Found
	// Settled: the budget ended. The answer is a solution, maybe not the one that
	// the strategy wants.
	Settled
	// Ended: the budget ended and nobody knows whether there is a solution.
	Ended
)

// Answer is a solution: for each request its choice and, in ascending order, the
// devices that it gets. It is the Solver's memory, and good until the next Solve.
type Answer struct {
	Choices []int
	Devices [][]int32
}
