// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machines simulates what a machine room adds to a control plane:
// nodes that run pods, drivers that publish devices, and storage that is
// provisioned.
//
// Every Node object in the cluster is simulated, also one that a test creates:
// it has a lease, is Ready, and runs the pods that are bound to it. A pod goes
// from Pending to Running at once, without containers, but only when a real
// kubelet could start it: its claims are allocated for this node and reserved
// for it, and its volumes are bound and reachable, in-tree ones as those of the
// CSI drivers that have taken over from them. A pod that was bound without
// that is an error of the scheduler, or is about to be completed by a
// controller; it stays Pending with a Warning event and the condition
// lab.berth.dev/Blocked until it can start.
//
// The annotation lab.berth.dev/succeed-after: 1s on a pod makes it succeed this
// long after its start. A deleted pod is gone at once, whatever its grace
// period.
package machines
