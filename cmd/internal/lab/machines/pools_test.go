// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestPoolsNeverGiveMoreThanTheyHave(t *testing.T) {
	pools := newPools(resource.MustParse("10Gi"))
	pools.add("a")
	take := func(volume, size string) error { return pools.take("a", volume, resource.MustParse(size)) }
	if err := take("one", "6Gi"); err != nil {
		t.Fatal(err)
	}
	if err := take("one", "6Gi"); err != nil {
		t.Errorf("the same volume again: %v", err)
	}
	if err := take("two", "5Gi"); err == nil {
		t.Error("5Gi taken of 4Gi")
	}
	wantFree(t, pools, "4Gi")
	if _, found := pools.giveBack("two"); found {
		t.Error("a volume that was never taken was given back")
	}
	if segment, found := pools.giveBack("one"); !found || segment != "a" {
		t.Errorf("giveBack(one) = %q, %t", segment, found)
	}
	pools.giveBack("one")
	wantFree(t, pools, "10Gi")
}

func TestLargestPoolIsTheFirstOfEquals(t *testing.T) {
	pools := newPools(resource.MustParse("10Gi"))
	for _, segment := range []string{"c", "b", "a"} {
		pools.add(segment)
	}
	if err := pools.take("a", "one", resource.MustParse("1Gi")); err != nil {
		t.Fatal(err)
	}
	if segment, _ := pools.largest(func(string) bool { return true }); segment != "b" {
		t.Errorf("largest of all is %q, want b", segment)
	}
	if segment, _ := pools.largest(func(s string) bool { return s == "a" }); segment != "a" {
		t.Errorf("largest of a is %q", segment)
	}
	if segment, found := pools.largest(func(string) bool { return false }); found {
		t.Errorf("largest of none is %q", segment)
	}
}

func wantFree(t *testing.T, pools *pools, want string) {
	t.Helper()
	free := pools.freeIn("a")
	if free.Cmp(resource.MustParse(want)) != 0 {
		t.Errorf("%s free, want %s", &free, want)
	}
}
