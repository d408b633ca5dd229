// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"

	"github.com/berth-scheduler/berth/reason"
)

// wishes are the changes that were named, each once. What would give a request
// its devices is one wish, as the node that came furthest with it words it.
type wishes []wish

type wish struct {
	claim   reason.Ref
	request string
	// came is how far the node came with the request.
	came int
	text string
	// never: nothing in the cluster can bring it about, as text says.
	never bool
	// constrained: the devices must share a value of an attribute. most of them
	// exist where enough is false.
	constrained bool
	most        int
	enough      bool
}

func (w *wishes) add(r *reason.Rejection) {
	one := wish{
		text: unsupported(r), came: came(r), constrained: r.Facts.Attribute != "",
		most: exist(r), enough: r.Code != reason.NoDeviceOfClass && !tooFewExist(r),
	}
	if one.never = one.text != ""; !one.never {
		one.text = change(r)
	}
	if r.Request != "" && r.Kind() == reason.DoesNotFit {
		one.claim, one.request = r.Claim, r.Request
	}
	if one.text == "" {
		return
	}
	for i := range *w {
		known := &(*w)[i]
		switch {
		case one.request != "" && known.claim == one.claim && known.request == one.request:
			most, enough := max(known.most, one.most), known.enough || one.enough
			if known.came < one.came {
				*known = one
			}
			known.most, known.enough = most, enough
			return
		case known.text == one.text:
			return
		}
	}
	*w = append(*w, one)
}

// came orders the answers to one request by how near they are to a yes.
func came(r *reason.Rejection) int {
	switch {
	case r.Code == reason.ConstraintUnmet, r.Code == reason.NotEnoughDevices && r.Facts.Attribute != "":
		return 3
	case r.Code == reason.NoDeviceOfClass:
		return 0
	case r.Code == reason.DevicesUnsupported, noneMatches(r):
		return 1
	}
	return 2
}

// texts are the changes that something in the cluster can bring about.
func (w wishes) texts() []string {
	var all []string
	for _, one := range w {
		switch {
		case one.never:
		case one.constrained && one.most > 0 && !one.enough:
			all = append(all, fmt.Sprintf("%s (at most %d with one value exist on any node)", one.text, one.most))
		default:
			all = append(all, one.text)
		}
	}
	return all
}

// never are the changes that nothing in the cluster can bring about.
func (w wishes) never() []string {
	var all []string
	for _, one := range w {
		if one.never {
			all = append(all, one.text)
		}
	}
	if len(all) > 0 {
		all[0] = "nothing in this cluster: " + all[0]
	}
	return all
}

// unsupported says what Berth would have to do for the rejection to go away.
func unsupported(r *reason.Rejection) string {
	switch r.Code {
	case reason.DevicesUnsupported:
		return fmt.Sprintf("devices of class %s that %s cannot be used", r.Facts.Class, cmp.Or(r.Facts.Feature, "need something that is not supported"))
	case reason.ClaimUnsupported:
		return "there is no support for " + r.Feature()
	}
	return ""
}
