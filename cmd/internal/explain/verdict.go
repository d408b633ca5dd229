// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/reason"
)

// verdict says in one sentence why no node takes the pod. What it says is true
// of every node: a reason that only most nodes give is not generalised.
func verdict(claims []Claim, nodes []simulate.Node) string {
	if len(nodes) == 0 {
		return "the cluster has no nodes"
	}
	if shared := everywhere(nodes, func(n simulate.Node) *reason.Rejection { return n.Devices }); shared != nil {
		return lacking(claims, shared)
	}
	if shared := everywhere(nodes, func(n simulate.Node) *reason.Rejection { return n.Volumes }); shared != nil {
		return lacking(claims, shared)
	}

	if text := apart(nodes); text != "" {
		return text
	}
	lack := map[string]int{}
	for _, node := range nodes {
		lack[about(node.Refusal)]++
	}
	var parts []string
	if n := lack["devices"]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d for want of devices", n))
	}
	if n := lack["volumes"]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d for want of volumes", n))
	}
	if n := lack["other"]; n > 0 {
		parts = append(parts, fmt.Sprintf("%d for other reasons", n))
	}
	none := fmt.Sprintf("none of %s takes it", count(len(nodes), "node"))
	if len(nodes) == 1 {
		none = "the only node does not take it"
	}
	if lack["other"] == len(nodes) {
		var texts []string
		for _, one := range reasons(nodes) {
			texts = append(texts, fmt.Sprintf("%d %s", len(one.Nodes), one.Text))
		}
		if len(texts) == 1 {
			return none + ": " + reasons(nodes)[0].Text
		}
		return none + ": " + some(texts, 3)
	}
	return none + ": " + strings.Join(parts, ", ")
}

// apart says that the devices of the pod are on some nodes and its volumes on
// others, nothing if that is not so.
func apart(nodes []simulate.Node) string {
	devices, volumes := 0, 0
	for _, node := range nodes {
		switch {
		case hasClaims(node):
			return ""
		case node.Devices == nil:
			devices++
		case node.Volumes == nil:
			volumes++
		}
	}
	if devices == 0 || volumes == 0 {
		return ""
	}
	return fmt.Sprintf("no node has both its devices and its volumes: the devices could be had on %d of %s, the volumes on %d",
		devices, count(len(nodes), "node"), volumes)
}

// everywhere returns, if there is a claim and request (or claim and volume) that
// every node refuses, the rejections of it.
func everywhere(nodes []simulate.Node, of func(simulate.Node) *reason.Rejection) []*reason.Rejection {
	first := of(nodes[0])
	if first == nil {
		return nil
	}
	for _, candidate := range first.All() {
		var shared []*reason.Rejection
		for _, node := range nodes {
			rejection := of(node)
			if rejection == nil {
				break
			}
			for _, one := range rejection.All() {
				if one.Claim == candidate.Claim && one.Request == candidate.Request {
					shared = append(shared, one)
					break
				}
			}
		}
		if len(shared) == len(nodes) {
			return shared
		}
	}
	return nil
}

// lacking says what the rejections of one request or volume have in common.
func lacking(claims []Claim, shared []*reason.Rejection) string {
	wanted, constrained, same := shared[0], false, true
	for _, r := range shared {
		switch r.Code {
		case reason.NoDeviceOfClass:
		case reason.NotEnoughDevices, reason.ConstraintUnmet:
			constrained = constrained || r.Facts.Attribute != ""
		default:
			same = false
		}
		if r.Facts.Wanted != nil && wanted.Facts.Wanted == nil || r.Facts.Attribute != "" && wanted.Facts.Attribute == "" {
			wanted = r
		}
	}
	f := wanted.Facts
	if text := impossible(shared); text != "" {
		return text
	}
	switch {
	case same && f.Wanted != nil && f.Class != "":
		n := f.Wanted.Value()
		most, few := mostThatExist(shared)
		if few && most == 0 && !constrained {
			return fmt.Sprintf("no node has a device of class %s%s", f.Class, matching(claims, wanted))
		}
		if few && constrained {
			return fmt.Sprintf("no node has %d device%s of class %s%s with the same %s, at most %d share one on any node",
				n, plural(n), f.Class, matching(claims, wanted), f.Attribute, most)
		}
		if few {
			return fmt.Sprintf("no node has %d device%s of class %s%s, the most on one node is %d",
				n, plural(n), f.Class, matching(claims, wanted), most)
		}
		text := fmt.Sprintf("no node has %d free device%s of class %s", n, plural(n), f.Class)
		text += matching(claims, wanted)
		if constrained && f.Attribute != "" {
			text += " with the same " + f.Attribute
		}
		return text
	case codes(shared) == 1 && wanted.Code == reason.NoDeviceOfClass && f.Class != "":
		return "no node has a device of class " + f.Class
	case codes(shared) == 1 && wanted.Code == reason.NoVolume && f.Class != "":
		text := "no node has a free volume of class " + f.Class
		if f.Wanted != nil {
			text += " of " + f.Wanted.String()
		}
		text += " for claim " + wanted.Claim.String()
		if f.Had != nil && len(shared) == 1 {
			text += ", the largest has " + f.Had.String()
		}
		return text
	case codes(shared) == 1 && wanted.Code == reason.NotEnoughStorage && f.Class != "" && f.Wanted != nil:
		return fmt.Sprintf("no node has %s of free storage of class %s for claim %s", f.Wanted, f.Class, wanted.Claim)
	case codes(shared) == 1:
		return "no node takes it: " + describe(wanted)
	}
	return fmt.Sprintf("no node is known to have what %s asks for", ask(wanted))
}

// mostThatExist returns how many devices of those that the request matches the
// best node has, free or not and under its constraint, and whether that is too
// few on every node.
func mostThatExist(shared []*reason.Rejection) (most int, few bool) {
	for _, r := range shared {
		switch {
		case r.Facts.Devices == nil && r.Code == reason.NoDeviceOfClass:
		case !tooFewExist(r):
			return 0, false
		default:
			most = max(most, exist(r))
		}
	}
	return most, true
}

// exist is how many devices the request could have if nobody held one.
func exist(r *reason.Rejection) int {
	switch d := r.Facts.Devices; {
	case d == nil:
		return 0
	case r.Facts.Attribute != "":
		return d.Most
	default:
		return d.Match
	}
}

// tooFewExist says that no pod that ends can give the request its devices.
func tooFewExist(r *reason.Rejection) bool {
	return r.Facts.Devices != nil && r.Facts.Wanted != nil && int64(exist(r)) < r.Facts.Wanted.Value()
}

// matching says that not every device of the class would do, when the request
// has selectors of its own.
func matching(claims []Claim, r *reason.Rejection) string {
	for _, claim := range claims {
		for _, request := range claim.Requests {
			if claim.Claim.Name == r.Claim.Name && request.Name == r.Request && len(request.Selectors) > 0 {
				return fmt.Sprintf(" that request %q selects", r.Request)
			}
		}
	}
	return ""
}

func codes(rejections []*reason.Rejection) int {
	seen := map[reason.Code]bool{}
	for _, r := range rejections {
		seen[r.Code] = true
	}
	return len(seen)
}

func ask(r *reason.Rejection) string {
	text := "claim " + r.Claim.String()
	if r.Request != "" {
		text = fmt.Sprintf("request %q of %s", r.Request, text)
	}
	return text
}

func plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}
