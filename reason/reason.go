// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Rejection is one "no": why a pod cannot be placed on a node, or on any node
// when Node is empty. Whoever receives one may keep it and must not change it.
type Rejection struct {
	// Code is the reason, one of the closed list. Never empty.
	Code Code `json:"code"`
	// Node is the node that was asked, empty when the answer holds for all.
	Node string `json:"node,omitempty"`
	// Claim is the ResourceClaim or PersistentVolumeClaim that was refused.
	Claim Ref `json:"claim,omitzero"`
	// Request is the request inside a ResourceClaim (spec.devices.requests[].name).
	Request string `json:"request,omitempty"`
	// Volume is the entry of the pod's spec.volumes that uses the claim.
	Volume string `json:"volume,omitempty"`
	// Facts are what the decision rests on.
	Facts Facts `json:"facts,omitzero"`
	// Also are the further reasons that hold at the same time, one for each
	// claim, request or volume that was refused as well.
	Also []*Rejection `json:"also,omitempty"`
}

// Facts are what a rejection rests on. Which of them are set depends on the
// code; a fact that was not looked for is left out, never guessed. The fast
// path of an engine may leave all of them out, its Explain fills them in.
type Facts struct {
	// Wanted and Had are what was asked for and the most that could be had: a
	// number of devices, or bytes of storage.
	Wanted *resource.Quantity `json:"wanted,omitempty"`
	Had    *resource.Quantity `json:"had,omitempty"`
	// Limit is the largest single volume that can be made, when that is what is
	// too small, however much storage is free.
	Limit *resource.Quantity `json:"limit,omitempty"`
	// Requests are the requests ("claim/request" where there are several claims)
	// that are refused together, when it takes more than one.
	Requests []string `json:"requests,omitempty"`
	// Class is the DeviceClass or StorageClass that was asked for.
	Class string `json:"class,omitempty"`
	// Constraint is the kind of a constraint that is not satisfied, as its field is
	// named: matchAttribute, distinctAttribute or compatibilityGroups.
	Constraint string `json:"constraint,omitempty"`
	// Attribute is the attribute of a constraint or the label key of a topology,
	// Values are the values that it would have to have, or has.
	Attribute string   `json:"attribute,omitempty"`
	Values    []string `json:"values,omitempty"`
	// Expression is a CEL expression.
	Expression string `json:"expression,omitempty"`
	// Feature is what was asked for that is not supported or switched off.
	Feature string `json:"feature,omitempty"`
	// Field is the path of the field that could not be followed.
	Field string `json:"field,omitempty"`
	// Detail is the text of an underlying error.
	Detail string `json:"detail,omitempty"`
	// Generation is the generation of the pool that is being updated or is
	// invalid (spec.pool.generation).
	Generation int64 `json:"generation,omitempty"`
	// Object is the object that caused the rejection, if not the claim itself.
	Object Ref `json:"object,omitzero"`
	// Devices counts the devices of the node by what became of them.
	Devices *Devices `json:"devices,omitempty"`
	// Steps is how much of its budget a search used.
	Steps int64 `json:"steps,omitempty"`
}

// Devices counts what one request finds on one node. Each number is a part of
// the one before it.
type Devices struct {
	// InClass is how many devices the selectors of the class accept.
	InClass int `json:"inClass"`
	// Match is how many of them the selectors of the request accept too.
	Match int `json:"match"`
	// Free is how many of these nobody holds and no taint keeps away.
	Free int `json:"free"`
	// Unusable is how many of Match nobody holds, no taint keeps away, and Berth
	// cannot use, because they need something that is not supported.
	Unusable int `json:"unusable,omitempty"`
	// Most is how many could be had with one value of the constraint's attribute
	// if nobody held a device; no more are counted than are wanted.
	Most int `json:"most,omitempty"`
	// Groups split the free devices by the value of the constraint's attribute.
	Groups []Group `json:"groups,omitempty"`
	// Held are the matching devices that somebody holds.
	Held []Held `json:"held,omitempty"`
	// Counters are what is left of the shared counters that the matching devices
	// consume, of those that are not whole.
	Counters []Counter `json:"counters,omitempty"`
	// Refused are the devices of the class that cannot be used for another reason.
	Refused []Refused `json:"refused,omitempty"`
}

// Group is the number of free devices that share a value of an attribute.
type Group struct {
	Value string `json:"value"`
	Free  int    `json:"free"`
}

// Counter is what is left of a shared counter of a pool.
type Counter struct {
	// Name is set/counter.
	Name  string            `json:"name"`
	Total resource.Quantity `json:"total"`
	Left  resource.Quantity `json:"left"`
}

// Held is a device and the claim that holds it.
type Held struct {
	Device Device `json:"device"`
	Claim  Ref    `json:"claim"`
	// Pods are the consumers that the claim is reserved for.
	Pods []Ref `json:"pods,omitempty"`
}

// Refused is a device that may not be used, and why, in words that suit one device
// and several: "taint key=value:Effect", "no attribute model", and the like.
type Refused struct {
	Device Device `json:"device"`
	Why    string `json:"why"`
}

// Device names a device in the cluster.
type Device struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Name   string `json:"name"`
}

// String returns driver/pool/device, as kubelets and drivers print it.
func (d Device) String() string { return d.Driver + "/" + d.Pool + "/" + d.Name }

// Ref names an object of the API. Namespace is empty for cluster-scoped kinds.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns namespace/name, or the name alone, to be pasted into kubectl.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// Kind returns the kind of the rejection's code.
func (r *Rejection) Kind() Kind { return r.Code.Kind() }

// Evictable says whether pods that end could cure every reason of the
// rejection, which is when preemption may be tried.
func (r *Rejection) Evictable() bool {
	for _, one := range r.All() {
		if !one.Code.Evictable() {
			return false
		}
	}
	return true
}

// All returns the rejection and those in Also, in order.
func (r *Rejection) All() []*Rejection { return append([]*Rejection{r}, r.Also...) }

// Error returns the one-line status of the rejection. It depends on nothing
// that differs between nodes: rejections of the same codes, in whatever order,
// give the same line.
func (r *Rejection) Error() string {
	var lines []string
	for _, one := range r.All() {
		line := one.Code.status()
		if missing := one.missing(); missing != "" {
			line += ": " + missing
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "; ")
}

// missing is what the pod lacks, where this is the same on every node.
func (r *Rejection) missing() string {
	switch r.Code {
	case ClaimUnsupported:
		return r.Facts.Feature
	case DeviceClassNotFound, StorageClassNotFound:
		return r.Facts.Class
	case ClaimNotFound, VolumeClaimNotFound:
		return r.Claim.Name
	}
	return ""
}
