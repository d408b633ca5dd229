// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	storage "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/live"
	"github.com/berth-scheduler/berth/volume"
)

// steps are what is to be written, and waited for, so that the plan of the
// chosen node comes true. A pod whose claims are all bound has none.
type steps struct {
	bindings   []*binding
	provisions []*provision
}

// progress is how far Commit has come with one step.
type progress struct {
	// ended: something happened that the step cannot come true after.
	ended bool
	// bound: the claim has its volume.
	bound bool
}

// arrives says whether the claim is bound now and was not before.
func (p *progress) arrives(bound bool) bool {
	first := bound && !p.bound
	p.bound = p.bound || bound
	return first
}

// binding puts a claim on an existing volume.
type binding struct {
	claim *v1.PersistentVolumeClaim
	// plan is the volume with spec.claimRef naming the claim.
	plan *v1.PersistentVolume
	// seen is the volume as it was when Commit had written it, nil before.
	seen *v1.PersistentVolume
	progress
}

// provision has a volume made for a claim.
type provision struct {
	node string
	// plan is the claim with the selected-node annotation naming the node.
	plan *v1.PersistentVolumeClaim
	// seen is the claim as it was when Commit had written it, nil before.
	seen *v1.PersistentVolumeClaim
	// draw is the part of the plan that says where the claim draws from.
	draw volume.Provision
	progress
}

// stepsFor turns a plan of the engine into the objects as they will look.
func stepsFor(plan volume.Plan) (steps, error) {
	var s steps
	for _, b := range plan.Bindings() {
		pv, _, err := storage.GetBindVolumeToClaim(b.Volume, b.Claim)
		if err != nil {
			return steps{}, fmt.Errorf("planning to bind PersistentVolume %s to claim %s/%s: %w",
				b.Volume.Name, b.Claim.Namespace, b.Claim.Name, err)
		}
		s.bindings = append(s.bindings, &binding{claim: b.Claim, plan: pv})
	}
	for _, d := range plan.Provisions() {
		s.provisions = append(s.provisions, &provision{node: d.Node, plan: selectNode(d.Claim, d.Node), draw: d})
	}
	return s, nil
}

func selectNode(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storage.AnnSelectedNode, node)
	return claim
}

func (s steps) empty() bool { return len(s.bindings) == 0 && len(s.provisions) == 0 }

// plans are what to reserve. Draws are held against later pods if the check of
// capacity asks for it.
func (s steps) plans(check volume.CapacityCheck) live.VolumePlans {
	var plans live.VolumePlans
	for _, b := range s.bindings {
		plans.Bound = append(plans.Bound, b.plan)
	}
	for _, d := range s.provisions {
		plans.Placed = append(plans.Placed, d.plan)
		if check == volume.CheckSum {
			plans.Draws = append(plans.Draws, d.draw)
		}
	}
	return plans
}

// split tells the steps that may still be written from those that were, or that
// came to an end.
func (s steps) split() (open, closed steps) {
	for _, b := range s.bindings {
		if b.seen == nil && !b.ended {
			open.bindings = append(open.bindings, b)
		} else {
			closed.bindings = append(closed.bindings, b)
		}
	}
	for _, d := range s.provisions {
		if d.seen == nil && !d.ended {
			open.provisions = append(open.provisions, d)
		} else {
			closed.provisions = append(closed.provisions, d)
		}
	}
	return open, closed
}

// without returns the steps for objects that the others are not for.
func (s steps) without(others steps) steps {
	taken := map[types.UID]bool{}
	for _, b := range others.bindings {
		taken[b.plan.UID] = true
	}
	for _, d := range others.provisions {
		taken[d.plan.UID] = true
	}
	var rest steps
	for _, b := range s.bindings {
		if !taken[b.plan.UID] {
			rest.bindings = append(rest.bindings, b)
		}
	}
	for _, d := range s.provisions {
		if !taken[d.plan.UID] {
			rest.provisions = append(rest.provisions, d)
		}
	}
	return rest
}

// classes are the StorageClasses of the claims, each once, by name.
func (s steps) classes() []string {
	names := sets.New[string]()
	for _, b := range s.bindings {
		names.Insert(storage.GetPersistentVolumeClaimClass(b.claim))
	}
	for _, d := range s.provisions {
		names.Insert(storage.GetPersistentVolumeClaimClass(d.plan))
	}
	return sets.List(names)
}

// wrote says whether anything was written, or found written.
func (s steps) wrote() bool {
	for _, b := range s.bindings {
		if b.seen != nil {
			return true
		}
	}
	for _, d := range s.provisions {
		if d.seen != nil {
			return true
		}
	}
	return false
}
