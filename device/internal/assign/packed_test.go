// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/device/internal/assign"
)

// TestPackedPairs: eight GPUs in pairs, four pods of one and then two of two. The
// singles fill two pairs, each double gets a whole pair.
func TestPackedPairs(t *testing.T) {
	n := free(8)
	n.Topology = [][]int32{n.values(func(d int) int { return d % 4 }).One}
	left := n.all()
	var got [][]int32
	for _, count := range []int{1, 1, 1, 1, 2, 2} {
		n.Requests = nil
		n.want(0, slices.Clone(left), count)
		got = append(got, packedDevices(t, n)[0])
		for _, d := range got[len(got)-1] {
			left.Drop(int(d))
			n.Idle.Drop(int(d))
		}
	}
	if want := [][]int32{{0}, {4}, {1}, {5}, {2, 6}, {3, 7}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPackedPairBesideBrokenPairs: two of a whole pair are better than one each of
// two broken ones.
func TestPackedPairBesideBrokenPairs(t *testing.T) {
	n := free(6)
	n.Topology = [][]int32{n.values(func(d int) int { return d / 2 }).One}
	n.Idle.Drop(0)
	n.Idle.Drop(2)
	n.want(0, n.where(func(d int) bool { return d != 0 && d != 2 }), 2)
	if got, want := packedDevices(t, n)[0], []int32{4, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPackedPartitions: seven small partitions, one pod each, on two GPUs of seven
// slices. All of them are on one GPU.
func TestPackedPartitions(t *testing.T) {
	n := mig(2)
	// The second GPU has the first small partition.
	n.hold(2*partitions - 1)
	for range 6 {
		n.Requests = nil
		n.want(0, n.where(func(d int) bool { return n.of(small).Has(d) && n.Idle.Has(d) }), 1)
		d := int(packedDevices(t, n)[0][0])
		if d < partitions {
			t.Fatalf("device %d is on the whole GPU", d)
		}
		n.hold(d)
	}
}

// TestPackedLargestLeft: a small partition goes where it does not cost the half
// that is left.
func TestPackedLargestLeft(t *testing.T) {
	n := mig(2)
	n.hold(1)              // a half of the first GPU: one half is left of it
	n.hold(partitions + 3) // a quarter of the second: a half and more is left
	n.want(0, n.of(small), 1)
	if d := packedDevices(t, n)[0][0]; d < partitions {
		t.Errorf("device %d takes the last half of the first GPU", d)
	}
}

// TestPackedShared: a device that is shared already is used before an idle one.
func TestPackedShared(t *testing.T) {
	n := free(3)
	n.Shared = n.all()
	n.Idle.Drop(2)
	n.want(0, n.all(), 1).want(0, n.all(), 1)
	if got, want := packedDevices(t, n), [][]int32{{2}, {2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPackedWithoutTopology: where the topology makes too much of it, no more GPUs are
// broken than without, though the first fit would break more.
func TestPackedWithoutTopology(t *testing.T) {
	ask := func() *node {
		n := mig(8)
		for g := 5; g < 8; g++ {
			n.hold(g*partitions + 3)
		}
		quarters := n.where(func(d int) bool { return n.of(quarter).Has(d) && n.Idle.Has(d) })
		n.want(0, quarters, 5).want(0, n.of(small), 7).want(1, n.of(half), 3)
		return n.want(2, quarters, 4).want(2, n.of(small), 3)
	}
	solver := &assign.Solver{}
	broken := func(n *node, strategy assign.Strategy, want assign.Verdict) int {
		if verdict := solver.Solve(&n.Problem, strategy, budget); verdict != want {
			t.Fatalf("strategy %d: verdict %d after %d steps, want %d", strategy, verdict, solver.Steps(), want)
		}
		gpus := map[int32]bool{}
		for _, devices := range solver.Answer().Devices {
			for _, d := range devices {
				if d < 5*partitions {
					gpus[d/partitions] = true
				}
			}
		}
		return len(gpus)
	}
	tied := ask()
	tied.Topology = [][]int32{
		tied.values(func(d int) int { return d / partitions / 2 }).One,
		tied.values(func(d int) int { return d / partitions / 4 }).One,
	}
	with, without := broken(tied, assign.Packed, assign.Settled), broken(ask(), assign.Packed, assign.Found)
	if first := broken(ask(), assign.InOrder, assign.Found); with != without || first <= without {
		t.Errorf("%d whole GPUs are broken, %d without topology, %d in order", with, without, first)
	}
}

// TestPackedTies: what is equally good is decided by the order of the devices.
func TestPackedTies(t *testing.T) {
	n := mig(4)
	n.Topology = [][]int32{n.values(func(d int) int { return d / partitions / 2 }).One}
	n.want(0, n.of(small), 1)
	if got, want := packedDevices(t, n)[0], []int32{7}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	n = free(16)
	n.Topology = [][]int32{n.values(func(d int) int { return d / 4 }).One}
	n.want(0, n.all(), 4).want(0, n.all(), 4)
	if got, want := packedDevices(t, n), [][]int32{{0, 1, 2, 3}, {4, 5, 6, 7}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func packedDevices(t *testing.T, n *node) [][]int32 {
	t.Helper()
	solver := &assign.Solver{}
	if verdict := solver.Solve(&n.Problem, assign.Packed, budget); verdict != assign.Found {
		t.Fatalf("verdict %d", verdict)
	}
	answer := solver.Answer()
	if !check(&n.Problem, answer.Choices, answer.Devices) {
		t.Fatalf("wrong: %v", answer)
	}
	return keep(answer.Choices, answer.Devices).devices
}
