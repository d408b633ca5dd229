// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	storage "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/faults"
)

func TestBoundClaimNeedsNothing(t *testing.T) {
	pv, pvc := volumeOn("pv", local, "n1"), claim("data", local)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data", UID: pvc.UID}
	pv.Status.Phase = v1.VolumeBound
	pvc.Spec.VolumeName = "pv"
	pvc.Status.Phase = v1.ClaimBound
	pvc.Annotations = map[string]string{storage.AnnBindCompleted: "yes"}
	p := pod("p", "data")
	c := newCluster(t, nil, pv, pvc, p)

	a := c.mustSchedule(p, "n1")
	if _, status := c.plugin.PreBindPreFlight(c.ctx, a.state, p, "n1"); !status.IsSkip() {
		t.Errorf("PreBindPreFlight returned %v, want Skip", status)
	}
	c.must(c.result(a.preBind()))
	a.unreserve()
	if _, status := c.schedule(p, "n2"); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("the node that does not reach the volume got %v (%v)", status.Code(), status)
	}
}

func TestStaticVolumeIsBound(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), p)

	a := c.mustSchedule(p, "n1")
	result, status := c.plugin.PreBindPreFlight(c.ctx, a.state, p, "n1")
	if !status.IsSuccess() || !result.AllowParallel {
		t.Errorf("PreBindPreFlight returned %+v, %v", result, status)
	}
	done := a.preBind()
	c.eventually("the volume to name the claim", func() bool { return c.volume("pv").Spec.ClaimRef != nil })
	pv := c.volume("pv")
	if ref := pv.Spec.ClaimRef; ref.Kind != "PersistentVolumeClaim" || ref.Namespace != "default" || ref.Name != "data" || ref.UID != "claim-data" {
		t.Errorf("claimRef is %+v", ref)
	}
	if !metav1.HasAnnotation(pv.ObjectMeta, storage.AnnBoundByController) {
		t.Errorf("the controller cannot take the binding back: annotations are %v", pv.Annotations)
	}
	c.bind("pv")
	c.must(c.result(done))
	c.wantNothingReserved()
}

func TestVolumeIsProvisioned(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, claim("data", csi), p)

	done := c.mustSchedule(p, "n1").preBind()
	c.eventually("the node to be selected", func() bool { return c.claim("data").Annotations[storage.AnnSelectedNode] == "n1" })
	c.provision("data", "made", "n1")
	c.bind("made")
	c.must(c.result(done))
	c.wantNothingReserved()
}

// provision does what a provisioner does.
func (c *cluster) provision(claimName, volumeName, nodeName string) {
	c.t.Helper()
	pv := volumeOn(volumeName, csi, nodeName)
	pv.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: claimName, UID: c.claim(claimName).UID}
	_, err := c.client.CoreV1().PersistentVolumes().Create(c.ctx, pv, metav1.CreateOptions{})
	c.must(err)
}

// wantNothingReserved checks that the ledgers are empty once the stores have
// caught up.
func (c *cluster) wantNothingReserved() {
	c.t.Helper()
	c.eventually("the ledgers to be empty", func() bool {
		return len(c.plugin.stores.BoundVolumes.InFlight()) == 0 && len(c.plugin.stores.PlacedClaims.InFlight()) == 0
	})
}

// Every way in which the wait for one claim can end, and that the pod's
// deletion leaves nothing behind.
func TestWaitEnds(t *testing.T) {
	for name, test := range map[string]struct {
		class string
		args  runtime.Object
		do    func(*cluster)
		want  End
	}{
		"pod deleted": {class: csi, want: PodGone, do: func(c *cluster) {
			c.must(c.client.CoreV1().Pods("default").Delete(c.ctx, "p", metav1.DeleteOptions{}))
		}},
		"pod being deleted": {class: local, want: PodGone, do: func(c *cluster) {
			p, err := c.client.CoreV1().Pods("default").Get(c.ctx, "p", metav1.GetOptions{})
			c.must(err)
			now := metav1.Now()
			p.DeletionTimestamp = &now
			_, err = c.client.CoreV1().Pods("default").Update(c.ctx, p, metav1.UpdateOptions{})
			c.must(err)
		}},
		"node deleted": {class: csi, want: NodeGone, do: func(c *cluster) {
			c.must(c.client.CoreV1().Nodes().Delete(c.ctx, "n1", metav1.DeleteOptions{}))
		}},
		"claim deleted": {class: csi, want: ClaimGone, do: func(c *cluster) {
			c.must(c.client.CoreV1().PersistentVolumeClaims("default").Delete(c.ctx, "data", metav1.DeleteOptions{}))
		}},
		"claim replaced": {class: local, want: ClaimGone, do: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.UID = "another" })
		}},
		"claim being deleted": {class: local, want: ClaimDeleting, do: func(c *cluster) {
			now := metav1.Now()
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.DeletionTimestamp = &now })
		}},
		"claim lost": {class: local, want: ClaimLost, do: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.Status.Phase = v1.ClaimLost })
		}},
		"claim bound to another volume": {class: local, want: ClaimBoundElsewhere, do: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeName = "other" })
		}},
		"volume deleted": {class: local, want: VolumeGone, do: func(c *cluster) {
			c.must(c.client.CoreV1().PersistentVolumes().Delete(c.ctx, "pv", metav1.DeleteOptions{}))
		}},
		"claimRef reset": {class: local, want: ClaimRefReset, do: func(c *cluster) {
			c.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
		}},
		"volume moved": {class: local, want: VolumeElsewhere, do: func(c *cluster) {
			c.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = volumeOn("", "", "n2").Spec.NodeAffinity })
		}},
		"selected node removed": {class: csi, want: SelectedNodeRemoved, do: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { delete(claim.Annotations, storage.AnnSelectedNode) })
		}},
		"provisioner refuses": {class: csi, want: ProvisioningRefused, do: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) {
				claim.Annotations = map[string]string{storage.AnnStorageProvisioner: "csi.example.com"}
			})
		}},
		"selected node changed": {class: csi, want: SelectedElsewhere, do: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.Annotations[storage.AnnSelectedNode] = "n2" })
		}},
		"provisioned elsewhere": {class: csi, want: VolumeElsewhere, do: func(c *cluster) {
			c.provision("data", "made", "n2")
			c.bind("made")
		}},
		"time": {class: csi, want: TimedOut, args: &runtime.Unknown{Raw: []byte(`bindTimeoutSeconds: 0`)}, do: func(*cluster) {}},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("p", "data")
			c := newCluster(t, test.args, volumeOn("pv", local, "n1"), claim("data", test.class), p)
			a := c.mustSchedule(p, "n1")
			done := a.preBind()
			c.eventually("the plan to be written", func() bool {
				return c.volume("pv").Spec.ClaimRef != nil || c.claim("data").Annotations[storage.AnnSelectedNode] != ""
			})
			test.do(c)
			c.wantEnd(done, test.want)
			a.unreserve()
			a.unreserve()
			c.wantNothingReserved()
		})
	}
}

// An in-tree volume names its zone by the label of the plugin, and the CSI driver
// that has taken over on the node by another.
func TestMigratedVolumeIsReached(t *testing.T) {
	p := pod("p", "data")
	pv := volumeOn("pv", local, "n1")
	pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone-a/vol-1"}
	pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions = []v1.NodeSelectorRequirement{
		{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"zone-a"}},
	}
	migrated := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: "n3", Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs"},
	}}
	n3 := node("n3")
	n3.Labels = map[string]string{"topology.ebs.csi.aws.com/zone": "zone-a"}
	c := newCluster(t, nil, pv, claim("data", local), p, n3, migrated)
	done := c.mustSchedule(p, "n3").preBind()
	c.eventually("the volume to name the claim", func() bool { return c.volume("pv").Spec.ClaimRef != nil })
	c.bind("pv")
	c.must(c.result(done))
}

func TestPreemptedPodStopsWaiting(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, claim("data", csi), p)
	a := c.mustSchedule(p, "n1")
	ctx, cancel := context.WithCancelCause(c.ctx)
	a.ctx = ctx
	done := a.preBind()
	c.eventually("the node to be selected", func() bool { return c.claim("data").Annotations[storage.AnnSelectedNode] != "" })
	preempted := errors.New("preempted")
	cancel(preempted)
	err := c.result(done)
	var ended *EndError
	if !errors.As(err, &ended) || ended.End != Cancelled || !errors.Is(err, preempted) {
		t.Errorf("PreBind returned %v", err)
	}
}

func TestClaimReplacedBeforeCommit(t *testing.T) {
	for _, class := range []string{local, csi} {
		t.Run(class, func(t *testing.T) {
			p := pod("p", "data")
			c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", class), p)
			a := c.mustSchedule(p, "n1")
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.UID = "another" })
			c.eventually("the store to show the new claim", func() bool { return c.plugin.stores.Claim("default", "data").UID == "another" })

			c.wantEnd(a.preBind(), ClaimGone)
			a.unreserve()
			if ref := c.volume("pv").Spec.ClaimRef; ref != nil {
				t.Errorf("the volume was bound to %+v", ref)
			}
			if annotations := c.claim("data").Annotations; len(annotations) > 0 {
				t.Errorf("the new claim was given annotations %v", annotations)
			}
			c.wantNothingReserved()
		})
	}
}

func TestConflictKeepsWhatOthersWrote(t *testing.T) {
	for _, class := range []string{local, csi} {
		t.Run(class, func(t *testing.T) {
			p := pod("p", "data")
			c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", class), p)
			a := c.mustSchedule(p, "n1")
			edited := false
			c.patches(func(apply func() (runtime.Object, error)) (runtime.Object, error) {
				if !edited {
					edited = true
					c.updateVolume("pv", func(pv *v1.PersistentVolume) {
						pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
					})
					c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.Labels = map[string]string{"mine": "yes"} })
				}
				return apply()
			})
			done := a.preBind()
			switch class {
			case local:
				c.eventually("the volume to name the claim", func() bool { return c.volume("pv").Spec.ClaimRef != nil })
			case csi:
				c.eventually("the node to be selected", func() bool { return c.claim("data").Annotations[storage.AnnSelectedNode] == "n1" })
				c.provision("data", "made", "n1")
			}
			if got := c.volume("pv").Spec.PersistentVolumeReclaimPolicy; got != v1.PersistentVolumeReclaimDelete {
				t.Errorf("the reclaim policy that somebody set became %s", got)
			}
			if c.claim("data").Labels["mine"] != "yes" {
				t.Errorf("the label that somebody set is gone")
			}
			c.bind(map[string]string{local: "pv", csi: "made"}[class])
			c.must(c.result(done))
		})
	}
}

func TestConflictThatConcernsThePlan(t *testing.T) {
	for name, test := range map[string]struct {
		class string
		edit  func(*cluster)
		want  End
	}{
		"volume taken": {class: local, want: VolumeTaken, edit: func(c *cluster) {
			c.updateVolume("pv", func(pv *v1.PersistentVolume) {
				pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "other", UID: "other"}
			})
		}},
		"volume moved": {class: local, want: VolumeChanged, edit: func(c *cluster) {
			c.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = volumeOn("", "", "n2").Spec.NodeAffinity })
		}},
		"volume deleted": {class: local, want: VolumeGone, edit: func(c *cluster) {
			c.must(c.client.Tracker().Delete(volumeResource, "", "pv"))
		}},
		"other node selected": {class: csi, want: SelectedElsewhere, edit: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) {
				claim.Annotations = map[string]string{storage.AnnSelectedNode: "n2"}
			})
		}},
		"claim bound": {class: csi, want: ClaimBoundElsewhere, edit: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeName = "other" })
		}},
		"claim grew": {class: csi, want: ClaimChanged, edit: func(c *cluster) {
			c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.Spec.Resources.Requests = storageOf("2Gi") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("p", "data")
			c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", test.class), p)
			a := c.mustSchedule(p, "n1")
			writes := 0
			c.patches(func(apply func() (runtime.Object, error)) (runtime.Object, error) {
				if writes++; writes == 1 {
					test.edit(c)
				}
				return apply()
			})
			c.wantEnd(a.preBind(), test.want)
			if writes != 1 {
				t.Errorf("wrote %d times, want 1", writes)
			}
			a.unreserve()
			c.wantNothingReserved()
		})
	}
}

func TestLostAnswerOfAWriteThatWorked(t *testing.T) {
	for _, class := range []string{local, csi} {
		t.Run(class, func(t *testing.T) {
			p := pod("p", "data")
			c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", class), p)
			writes := 0
			c.patches(func(apply func() (runtime.Object, error)) (runtime.Object, error) {
				writes++
				if _, err := apply(); err != nil {
					return nil, err
				}
				return nil, faults.ErrLost
			})
			done := c.mustSchedule(p, "n1").preBind()
			volume := "pv"
			if class == csi {
				c.eventually("the node to be selected", func() bool { return c.claim("data").Annotations[storage.AnnSelectedNode] == "n1" })
				volume = "made"
				c.provision("data", volume, "n1")
			}
			c.eventually("the volume to name the claim", func() bool { return c.volume(volume).Spec.ClaimRef != nil })
			c.bind(volume)
			c.must(c.result(done))
			if writes != 1 {
				t.Errorf("wrote %d times, want 1", writes)
			}
		})
	}
}

func TestLostRequestIsRepeated(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), p)
	writes := 0
	c.patches(func(apply func() (runtime.Object, error)) (runtime.Object, error) {
		if writes++; writes == 1 {
			return nil, faults.ErrLost
		}
		return apply()
	})
	done := c.mustSchedule(p, "n1").preBind()
	c.eventually("the volume to name the claim", func() bool { return c.volume("pv").Spec.ClaimRef != nil })
	c.bind("pv")
	c.must(c.result(done))
}

func TestWriteInDoubtKeepsTheVolume(t *testing.T) {
	p, rival := pod("p", "data"), pod("rival", "other")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), claim("other", local), p, rival)
	a := c.mustSchedule(p, "n1")
	c.patches(failing(faults.ErrLost))
	c.reads(failing(faults.ErrLost))

	if err := c.result(a.preBind()); !errors.Is(err, faults.ErrLost) {
		t.Fatalf("PreBind returned %v, want the lost connection", err)
	}
	if _, status := c.schedule(rival, "n1"); status.IsSuccess() {
		t.Fatal("the volume was offered to another claim while a write of it is in doubt")
	}
	c.reads(nil)
	a.unreserve()
	c.mustSchedule(rival, "n1")
}

func TestRefusedWriteFreesTheVolume(t *testing.T) {
	p, rival := pod("p", "data"), pod("rival", "other")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), claim("other", local), p, rival)
	a := c.mustSchedule(p, "n1")
	c.patches(failing(apierrors.NewForbidden(v1.Resource("persistentvolumes"), "pv", errors.New("no"))))
	if err := c.result(a.preBind()); !apierrors.IsForbidden(err) {
		t.Fatalf("PreBind returned %v, want the refusal", err)
	}
	a.unreserve()
	c.wantNothingReserved()
	c.mustSchedule(rival, "n1")
}
