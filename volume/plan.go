// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Plan is what has to be done so that a pod finds its volumes on one node.
// Plans are values, safe to copy and share; what their methods return must not
// be changed.
//
// A claim that is already on its way is part of the plan as well, since the pod
// has to wait for it: a Binding whose volume already names the claim by UID, or
// a Provision whose claim already carries the selected-node annotation. Nothing
// needs to be written for these.
type Plan struct {
	bindings   []Binding
	provisions []Provision
}

// Binding puts a claim on an existing volume: spec.claimRef of the volume is to
// name the claim.
type Binding struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// Provision has a volume made for a claim: the claim's annotation
// volume.kubernetes.io/selected-node is to name the node.
type Provision struct {
	Claim *v1.PersistentVolumeClaim
	// Node is the name of the node.
	Node string
	// Capacity is the object that the claim draws from, nil when the driver
	// does not report its capacity or the claim was being provisioned before.
	Capacity *storagev1.CSIStorageCapacity
	// Offered is what the capacity had left before the pod's claims, in bytes. It
	// is nil without Capacity or when the driver reports no total.
	Offered *resource.Quantity
}

// Bindings returns the claims that go on existing volumes, ordered by name of
// the claim.
func (p Plan) Bindings() []Binding { return p.bindings }

// Provisions returns the claims that volumes are made for, ordered by name of
// the claim.
func (p Plan) Provisions() []Provision { return p.provisions }

// Empty says that nothing is left to do or to wait for: all claims are bound.
func (p Plan) Empty() bool { return len(p.bindings) == 0 && len(p.provisions) == 0 }

// String returns one line per claim of the plan.
func (p Plan) String() string {
	if p.Empty() {
		return "nothing to do\n"
	}
	var out strings.Builder
	for _, b := range p.bindings {
		fmt.Fprintf(&out, "claim %s/%s: bind volume %s\n", b.Claim.Namespace, b.Claim.Name, b.Volume.Name)
	}
	for _, d := range p.provisions {
		fmt.Fprintf(&out, "claim %s/%s: provision on node %s", d.Claim.Namespace, d.Claim.Name, d.Node)
		if d.Capacity != nil {
			fmt.Fprintf(&out, " from capacity %s/%s", d.Capacity.Namespace, d.Capacity.Name)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
