// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/reason"
)

// count returns "1 node", "3 nodes".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// be returns "is" or "are".
func be(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// some joins at most limit words and counts the rest: "a, b and 3 more".
func some(words []string, limit int) string {
	if len(words) <= limit {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:limit], ", "), len(words)-limit)
}

// span returns the different values that were seen: "7", "7 or 8", "2 to 8".
func span(seen []resource.Quantity) string {
	seen = slices.Clone(seen)
	slices.SortFunc(seen, func(a, b resource.Quantity) int { return a.Cmp(b) })
	seen = slices.CompactFunc(seen, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
	switch len(seen) {
	case 0:
		return ""
	case 1:
		return seen[0].String()
	case 2:
		return seen[0].String() + " or " + seen[1].String()
	}
	return seen[0].String() + " to " + seen[len(seen)-1].String()
}

// describe says a rejection in one line, without what differs from node to
// node, so that equal lines can be counted.
func describe(r *reason.Rejection) string {
	f := r.Facts
	switch {
	case r.Code == reason.NoDeviceOfClass && f.Class != "":
		return "no device of class " + f.Class + " here"
	case r.Code == reason.DevicesUnsupported && f.Class != "" && f.Feature != "":
		return fmt.Sprintf("devices of class %s that cannot be used: they %s", f.Class, f.Feature)
	case f.Class != "" && selectorsFail(r):
		return fmt.Sprintf("request %q selects no device of class %s here: a selector fails: %s", r.Request, f.Class, f.Detail)
	case r.Code == reason.NotEnoughDevices && f.Class != "" && noneMatches(r):
		return fmt.Sprintf("request %q selects no device of class %s here", r.Request, f.Class)
	case r.Code == reason.NotEnoughDevices && f.Wanted != nil && f.Class != "":
		return fmt.Sprintf("request %q wants %s × %s", r.Request, f.Wanted, f.Class)
	case r.Code == reason.ConstraintUnmet && f.Wanted != nil && f.Attribute != "":
		return fmt.Sprintf("%s wants %s on one %s", asker(r), amount(f), f.Attribute)
	case r.Code == reason.NotEnoughStorage && f.Wanted != nil && f.Class != "" && f.Limit != nil:
		return fmt.Sprintf("claim %s wants %s of class %s, at most %s per volume", r.Claim, f.Wanted, f.Class, f.Limit)
	case r.Code == reason.NotEnoughStorage && f.Wanted != nil && f.Class != "":
		return fmt.Sprintf("claim %s wants %s of class %s", r.Claim, f.Wanted, f.Class)
	}
	general := *r
	general.Node = ""
	if r.Code != reason.PoolIncomplete && r.Code != reason.ClaimTooLarge {
		general.Facts.Had = nil
	}
	return general.Sentence()
}

// had says how much the nodes had that gave the same rejection.
func had(r *reason.Rejection, amounts []resource.Quantity) string {
	seen := span(amounts)
	if seen == "" || noneMatches(r) {
		return ""
	}
	switch r.Code {
	case reason.NotEnoughDevices:
		return ", " + seen + " free"
	case reason.ConstraintUnmet:
		return ", at most " + seen + " free on one"
	case reason.NotEnoughStorage:
		if r.Facts.Limit != nil {
			return ""
		}
		return ", " + seen + " left"
	}
	return ""
}

// noneMatches says that the node has devices of the class, and none would do.
func noneMatches(r *reason.Rejection) bool {
	d := r.Facts.Devices
	return d != nil && d.InClass > 0 && d.Match == 0
}

// selectorsFail says that none of the node's devices would do and that a
// selector failed on each of them.
func selectorsFail(r *reason.Rejection) bool {
	d := r.Facts.Devices
	return r.Code == reason.NotEnoughDevices && noneMatches(r) && r.Facts.Expression != "" && len(d.Refused) >= d.InClass
}

func asker(r *reason.Rejection) string {
	if r.Request != "" {
		return fmt.Sprintf("request %q", r.Request)
	}
	return "claim " + r.Claim.String()
}

func amount(f reason.Facts) string {
	if f.Class == "" {
		return f.Wanted.String()
	}
	return f.Wanted.String() + " × " + f.Class
}
