// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/reason"
)

// End is why the volumes of a pod will not be bound as planned.
type End string

// Every way in which Commit can end without all claims bound. The pod is tried
// again after each, unless it is gone itself.
const (
	// PodGone: the pod was deleted, is being deleted, or was replaced.
	PodGone End = "PodGone"
	// NodeGone: the chosen node was deleted.
	NodeGone End = "NodeGone"
	// ClaimGone: the claim was deleted, or replaced by one of the same name.
	ClaimGone End = "ClaimGone"
	// ClaimDeleting: the claim is being deleted.
	ClaimDeleting End = "ClaimDeleting"
	// ClaimLost: the claim was bound and has lost its volume.
	ClaimLost End = "ClaimLost"
	// ClaimChanged: the claim asks for something else than what was planned.
	ClaimChanged End = "ClaimChanged"
	// ClaimBoundElsewhere: the claim was bound to another volume.
	ClaimBoundElsewhere End = "ClaimBoundElsewhere"
	// SelectedElsewhere: somebody selected another node for the claim.
	SelectedElsewhere End = "SelectedElsewhere"
	// SelectedNodeRemoved: the selected-node annotation was removed from the
	// claim before a provisioner was asked.
	SelectedNodeRemoved End = "SelectedNodeRemoved"
	// ProvisioningRefused: the selected-node annotation was removed from the
	// claim after its provisioner was asked (the PersistentVolume controller puts
	// the annotation volume.kubernetes.io/storage-provisioner on the claim). That
	// is how a provisioner gives a claim back; it says why in an event.
	ProvisioningRefused End = "ProvisioningRefused"
	// VolumeGone: the volume was deleted, or replaced by one of the same name.
	VolumeGone End = "VolumeGone"
	// VolumeDeleting: the volume is being deleted.
	VolumeDeleting End = "VolumeDeleting"
	// VolumeChanged: the volume is no longer what was planned with.
	VolumeChanged End = "VolumeChanged"
	// VolumeTaken: the volume was bound to another claim.
	VolumeTaken End = "VolumeTaken"
	// ClaimRefReset: the volume was unbound from the claim again.
	ClaimRefReset End = "ClaimRefReset"
	// VolumeElsewhere: the volume cannot be reached from the node.
	VolumeElsewhere End = "VolumeElsewhere"
	// TimedOut: the claims were not bound in time.
	TimedOut End = "TimedOut"
	// Cancelled: the scheduler gave up the pod or stops.
	Cancelled End = "Cancelled"
)

var endSentences = map[End]string{
	PodGone:             "the pod was deleted",
	NodeGone:            "the node was deleted",
	ClaimGone:           "the claim was deleted or replaced",
	ClaimDeleting:       "the claim is being deleted",
	ClaimLost:           "the claim has lost its volume",
	ClaimChanged:        "the claim was changed",
	ClaimBoundElsewhere: "the claim was bound to another volume",
	SelectedElsewhere:   "the claim is being provisioned for another node",
	SelectedNodeRemoved: "the selected node was removed from the claim before a provisioner was asked",
	ProvisioningRefused: "the provisioner refused the node (the selected node was removed from the claim)",
	VolumeGone:          "the volume was deleted or replaced",
	VolumeDeleting:      "the volume is being deleted",
	VolumeChanged:       "the volume was changed",
	VolumeTaken:         "the volume was bound to another claim",
	ClaimRefReset:       "the volume was unbound from the claim",
	VolumeElsewhere:     "the volume cannot be reached from the node",
	TimedOut:            "the claim was not bound in time",
	Cancelled:           "waiting was cancelled",
}

// EndError says why Commit ended and what ended it.
type EndError struct {
	End    End
	Object reason.Ref
	// Cause is the underlying error, nil if there is none.
	Cause error
}

func isEnd(err error) bool {
	_, ended := errors.AsType[*EndError](err)
	return ended
}

// Error names the object and the reason.
func (e *EndError) Error() string {
	text := fmt.Sprintf("%s %s: %s", e.Object.Kind, e.Object, endSentences[e.End])
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *EndError) Unwrap() error { return e.Cause }
