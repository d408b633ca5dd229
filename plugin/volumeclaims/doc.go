// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volumeclaims is the scheduler plugin for PersistentVolumeClaims. It
// stands where VolumeBinding stands in kube-scheduler; package volume decides,
// this package listens and writes.
//
// # From extension point to verb
//
//	PreFilter    View and Compile: what no node can cure is said at once, and
//	             nodes that local volumes rule out are not looked at
//	Filter       Solve, for each node; Explain says more of a "no"
//	PostFilter   when nodes that a provisioner refused were left out and no other
//	             is left: the pod is tried again on those
//	PreScore,    how much of the storage concerned the plan uses, by the shapes
//	Score        in the args
//	Reserve      the chosen node's plan goes into the ledgers
//	PreBind      Commit: write the plan, wait until the claims are bound; beside
//	             the PreBind of other plugins
//	Unreserve    Undo
//
// Pods are not held back in PreEnqueue, since the user of a pod that is held back
// there sees no event. A running pod that waits to be resized in place has its
// volumes and is left alone.
//
// # Args
//
//	bindTimeout: 10m        # how long a pod waits for its volumes
//	capacityCheck: Sum      # or Each: every claim alone, for thin provisioning
//	capacitySettle: 2m      # how long a bound claim counts against capacity that is not reported anew; 0s: not at all
//	shape:                  # more score for nodes with more free storage
//	- {utilization: 0, score: 10}
//	- {utilization: 100, score: 0}
//	staticShape:            # more score for existing volumes that fit tightly
//	- {utilization: 0, score: 0}
//	- {utilization: 100, score: 10}
//
// These are the defaults. All fields may be left out; a field that does not exist
// is an error. bindTimeoutSeconds and shape of the in-tree VolumeBindingArgs mean
// what they mean there: a shape without a staticShape is for both.
//
// # The life of a claim
//
// A claim that is bound needs nothing but a node that reaches its volume. A
// claim whose class binds immediately is bound by the PersistentVolume
// controller; its pod waits. A claim whose class waits for the first consumer is
// bound through this plugin, in one of two ways.
//
// Static: a volume that fits exists. Commit has its spec.claimRef name the claim
// and annotates it with pv.kubernetes.io/bound-by-controller, as the
// PersistentVolume controller would. The controller then writes the other half
// into the claim, which ends with the annotation pv.kubernetes.io/bind-completed.
//
// Dynamic: a volume is to be made. Commit annotates the claim with
// volume.kubernetes.io/selected-node. The provisioner makes a volume that the
// node can reach and that names the claim, and the controller binds the two. A
// provisioner that cannot do it removes the annotation.
//
// Between Reserve and the moment the informer stores show what was written, the
// ledgers of package live stand in for it: no View offers a volume that is
// planned for another claim, and pods that share a claim share its plan. What
// claims draw from a reported capacity is counted too (package draws).
//
// # Writes
//
// A write is a patch of the one field and annotation, for one resourceVersion and
// UID. After a conflict the object is read again. If the change of the other
// party does not concern the plan, the patch is made anew; if it does, the pod
// goes back to the queue. Nothing that somebody else wrote is ever overwritten.
//
// After an error that does not tell whether the write took effect, the entry is
// doubtful and keeps its object reserved until a read says what became of it,
// under a context of its own.
//
// When a part of a pod's volumes was written and another part could not be, the
// pod has to go where the first part is. It keeps the rest reserved while it is
// tried again, for a minute after the first failure at most, or until it is gone.
//
// What becomes free without an event of the API (a doubt that is settled, a hold
// that ends, a draw that settles) wakes the pods that may wait for it.
//
// # How waiting ends
//
// PreBind ends well when all claims of the pod are bound. It looks again when
// one of the objects concerned changes, and ends with an [EndError] when one of
// these has happened:
//
//	PodGone              the pod was deleted
//	NodeGone             the chosen node was deleted
//	ClaimGone            the claim was deleted, or replaced under its name
//	ClaimDeleting        the claim is being deleted
//	ClaimLost            the claim has lost its volume
//	ClaimBoundElsewhere  the claim was bound to another volume
//	SelectedElsewhere    somebody selected another node for the claim
//	SelectedNodeRemoved  the selected-node annotation was removed before a provisioner was asked
//	ProvisioningRefused  it was removed afterwards: the provisioner refused the node
//	VolumeGone           the volume was deleted, or replaced under its name
//	ClaimRefReset        the volume was unbound again
//	VolumeElsewhere      the volume that was made cannot be reached from the node
//	TimedOut             bindTimeout has passed
//	Cancelled            the pod was preempted, or the scheduler stops
//
// and, while it still writes, with ClaimChanged, VolumeChanged, VolumeDeleting or
// VolumeTaken. The pod then goes back to the queue, unless it is gone. What was
// written stays: the PersistentVolume controller completes or releases it, and
// the next attempt of the pod starts from there.
//
// After ProvisioningRefused the pod is tried on other nodes first, for ten minutes
// or until none is left. Then the node has another chance before any pod is evicted
// elsewhere. The memory of it is that of the process.
//
// # Metrics
//
//	berth_volume_claims_stage_duration_seconds{stage}
//	    compile            View and Compile for a pod
//	    find               Solve on one node
//	    assume             Reserve
//	    bind_api           one object written, with all retries
//	    bind_provisioning  from then until a claim has the volume made for it
//	    bind_waiting       from then until a claim is bound to an existing volume
//	berth_volume_claims_rejections_total{scope,reason}
//	    scope is node or pod (as a whole), reason one of package reason
//	berth_volume_claims_commits_total{end}
//	    Bound, one of the ends above, or WriteFailed
//
// All profiles of a process share them. No label has the name of an object.
package volumeclaims
