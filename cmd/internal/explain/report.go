// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain answers where a pod is, or why it is nowhere: it asks a
// simulated scheduler about every node, and turns the answers into a [Report].
//
// A Report is data. [Report.WriteText] prints it for people, its JSON encoding
// has every fact for programs.
package explain

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/reason"
)

// State says where a pod stands with the scheduler.
type State string

// The states of a pod.
const (
	// Scheduled: the pod has a node.
	Scheduled State = "Scheduled"
	// Ended: the pod has succeeded or failed, or is being deleted without ever
	// having had a node. The scheduler has nothing to do with it any more.
	Ended State = "Ended"
	// Gated: the pod has scheduling gates, which keep it from the queue.
	Gated State = "Gated"
	// Fits: the pod has no node yet, although some would take it.
	Fits State = "Fits"
	// Refused: no node takes the pod.
	Refused State = "Refused"
)

// The version and kind of a Report in JSON and YAML. Of one version, no field is
// taken away and none changes its meaning.
const (
	APIVersion = "explain.berth.dev/v1"
	Kind       = "PodReport"
)

// Report is everything that is known about one pod.
type Report struct {
	metav1.TypeMeta `json:",inline"`

	Pod           reason.Ref `json:"pod"`
	SchedulerName string     `json:"schedulerName"`
	State         State      `json:"state"`
	// Node is set when the pod is scheduled.
	Node string `json:"node,omitempty"`
	// Verdict is the answer in one sentence.
	Verdict string `json:"verdict"`
	// Nearest is the node that came nearest to taking the pod, if any came near.
	Nearest *Nearest `json:"nearest,omitempty"`
	// Reasons sort all nodes by their answer, the most frequent first.
	Reasons []Reason `json:"reasons,omitempty"`
	// Claims and Volumes are what the pod asks for, in the order of its spec.
	Claims  []Claim  `json:"claims,omitempty"`
	Volumes []Volume `json:"volumes,omitempty"`
	// Preemption is what the eviction of other pods would do, when every node has
	// refused the pod.
	Preemption *simulate.Preemption `json:"preemption,omitempty"`
	// WaitsFor are the changes that can give another answer: each of them, or all
	// together when the pod is refused as a whole.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Notes are what else a reader has to know.
	Notes []string `json:"notes,omitempty"`
	// Refusal is set when the pod is refused as a whole, before any node.
	Refusal *simulate.Refusal `json:"refusal,omitempty"`
	// Nodes are the answers of all nodes with every fact, by name.
	Nodes []simulate.Node `json:"nodes,omitempty"`

	// priority is the pod's: that of holders is told where it differs.
	priority int32
}

// Nearest is a node and what it lacks.
type Nearest struct {
	Node string `json:"node"`
	Text string `json:"text"`
}

// Reason is one answer and the nodes that gave it.
type Reason struct {
	// About is "devices", "volumes", "other" or, for nodes that fit, "fits".
	About string   `json:"about"`
	Text  string   `json:"text"`
	Nodes []string `json:"nodes"`
}

// Claim is a ResourceClaim of the pod.
type Claim struct {
	// Name is the entry of the pod's spec.resourceClaims.
	Name string `json:"name"`
	// Claim is the object; without a name while it does not exist.
	Claim reason.Ref `json:"claim"`
	// Template is the ResourceClaimTemplate that the claim is made from.
	Template string `json:"template,omitempty"`
	// Missing: the object does not exist.
	Missing bool `json:"missing,omitempty"`
	// TemplateMissing: the template does not exist either.
	TemplateMissing bool `json:"templateMissing,omitempty"`
	// Requests are what the claim asks for.
	Requests []Request `json:"requests,omitempty"`
	// Devices are the allocated devices; SharedWith are the other pods that the
	// claim is reserved for.
	Devices    []Allocated  `json:"devices,omitempty"`
	SharedWith []reason.Ref `json:"sharedWith,omitempty"`
	// Extended are the extended resources that the scheduler makes the claim for.
	Extended []Extended `json:"extended,omitempty"`
}

// Allocated is a device of a claim and the request that it is for: "request", or
// "request/alternative" where there are several.
type Allocated struct {
	Request string `json:"request"`
	reason.Device
}

// Extended is an extended resource of the pod that a DeviceClass serves.
type Extended struct {
	Resource string `json:"resource"`
	Class    string `json:"class"`
	// DevicePlugin are the nodes that serve the resource by a device plugin, and
	// DRA is how many of the others there are. Neither is told of a pod that has a node.
	DevicePlugin []string `json:"devicePlugin,omitempty"`
	DRA          int      `json:"dra,omitempty"`
}

// Request is one request of a ResourceClaim.
type Request struct {
	Name string `json:"name"`
	// Wants is the request in words: "4 × gpu.nvidia.com, all on one pcieRoot".
	Wants string `json:"wants"`
	// Selectors are the CEL expressions of the request itself.
	Selectors []string `json:"selectors,omitempty"`
	// Found is what the best node has for it, if that is too little. In JSON it is
	// told with the node.
	Found *reason.Rejection `json:"-"`
	// Holders are who holds the matching devices of the best node.
	Holders []Holder `json:"holders,omitempty"`
}

// Holder is a claim that holds devices, and the pods that use it.
type Holder struct {
	Claim   reason.Ref      `json:"claim"`
	Pods    []HolderPod     `json:"pods,omitempty"`
	Devices []reason.Device `json:"devices"`
}

// HolderPod is a pod with its priority, nil if the pod is not known.
type HolderPod struct {
	Pod      reason.Ref `json:"pod"`
	Priority *int32     `json:"priority,omitempty"`
}

// Volume is a volume of the pod that a PersistentVolumeClaim stands for.
type Volume struct {
	// Name is the entry of the pod's spec.volumes.
	Name string `json:"name"`
	// Claim is the object; Missing: it does not exist.
	Missing bool               `json:"missing,omitempty"`
	Claim   reason.Ref         `json:"claim"`
	Class   string             `json:"class,omitempty"`
	Binding string             `json:"binding,omitempty"`
	Size    *resource.Quantity `json:"size,omitempty"`
	// Bound is the PersistentVolume behind the claim.
	Bound *BoundVolume `json:"bound,omitempty"`
	// Fits counts the nodes that have a place for an unbound volume, Most is the
	// most that a node has for it which lacks one, where that is known.
	Fits *int  `json:"fits,omitempty"`
	Most *Most `json:"most,omitempty"`
}

// BoundVolume is a PersistentVolume that a claim is bound to.
type BoundVolume struct {
	Name string            `json:"name"`
	Size resource.Quantity `json:"size"`
	// ProvisionedBy is the driver that made the volume for its claim, empty for
	// volumes that existed before.
	ProvisionedBy string `json:"provisionedBy,omitempty"`
}

// Most is the most storage that one node has.
type Most struct {
	Node string            `json:"node"`
	Size resource.Quantity `json:"size"`
	// PerVolume: it is the largest single volume, more may be free.
	PerVolume bool `json:"perVolume,omitempty"`
}
