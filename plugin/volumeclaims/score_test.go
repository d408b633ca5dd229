// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

func TestShape(t *testing.T) {
	s := shape{{Utilization: 20, Score: 2}, {Utilization: 60, Score: 10}, {Utilization: 80, Score: 0}}
	for utilization, want := range map[int64]int64{0: 20, 20: 20, 40: 60, 60: 100, 70: 50, 80: 0, 100: 0} {
		if got := s.score(utilization); got != want {
			t.Errorf("at %d%%: got %d, want %d", utilization, got, want)
		}
	}
}

// capacityOn is what class csi has on the node.
func capacityOn(node, size string) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta:       metav1.ObjectMeta{Namespace: "default", Name: "on-" + node},
		StorageClassName: csi,
		NodeTopology:     &metav1.LabelSelector{MatchLabels: map[string]string{"host": node}},
		Capacity:         ptr.To(resource.MustParse(size)),
	}
}

func tracking() *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"},
		Spec:       storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)},
	}
}

// scores takes the pod to Score on both nodes.
func (c *cluster) scores(p *v1.Pod) (n1, n2 int64, pre *fwk.Status) {
	c.t.Helper()
	s := &state{}
	_, status := c.plugin.PreFilter(c.ctx, s, p, nil)
	c.must(status.AsError())
	nodes := []fwk.NodeInfo{nodeInfo{node: c.plugin.stores.Node("n1")}, nodeInfo{node: c.plugin.stores.Node("n2")}}
	for _, node := range nodes {
		c.plugin.Filter(c.ctx, s, p, node)
	}
	pre = c.plugin.PreScore(c.ctx, s, p, nodes)
	var score [2]int64
	for i, node := range nodes {
		var status *fwk.Status
		score[i], status = c.plugin.Score(c.ctx, s, p, node)
		c.must(status.AsError())
	}
	return score[0], score[1], pre
}

func TestScorePrefersMostFreeStorage(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, tracking(), capacityOn("n1", "2Gi"), capacityOn("n2", "10Gi"), claim("data", csi), p)
	if n1, n2, pre := c.scores(p); n1 != 50 || n2 != 90 || !pre.IsSuccess() {
		t.Errorf("got %d with 1 of 2Gi used and %d with 1 of 10Gi (%v), want 50 and 90", n1, n2, pre)
	}
}

func TestScorePrefersLeastFreeStorageIfAsked(t *testing.T) {
	p := pod("p", "data")
	args := raw(`{"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}`)
	c := newCluster(t, args, tracking(), capacityOn("n1", "2Gi"), capacityOn("n2", "10Gi"), claim("data", csi), p)
	if n1, n2, _ := c.scores(p); n1 != 50 || n2 != 10 {
		t.Errorf("got %d with 1 of 2Gi used and %d with 1 of 10Gi, want 50 and 10", n1, n2)
	}
}

func TestScorePrefersTheVolumeThatFits(t *testing.T) {
	large := volumeOn("large", local, "n2")
	large.Spec.Capacity = storageOf("4Gi")
	p := pod("p", "data")
	c := newCluster(t, nil, volumeOn("small", local, "n1"), large, claim("data", local), p)
	if n1, n2, pre := c.scores(p); n1 != 100 || n2 != 25 || !pre.IsSuccess() {
		t.Errorf("got %d for 1 of 1Gi and %d for 1 of 4Gi (%v), want 100 and 25", n1, n2, pre)
	}
}

// The mean over classes, and over volumes that exist and that are to be made.
func TestScoreOfSeveralClasses(t *testing.T) {
	p := pod("p", "data", "disk")
	c := newCluster(t, nil, tracking(), capacityOn("n1", "2Gi"), volumeOn("pv", local, "n1"), claim("data", csi), claim("disk", local), p)
	if n1, n2, _ := c.scores(p); n1 != 75 || n2 != 0 {
		t.Errorf("got %d and %d, want the mean of 50 and 100, and nothing for the node without", n1, n2)
	}
}

// Objects that leave out what a score needs neither end the scheduler nor count.
func TestNothingToScore(t *testing.T) {
	onlyMaximum := func(node string) *storagev1.CSIStorageCapacity {
		c := capacityOn(node, "1Gi")
		c.Capacity, c.MaximumVolumeSize = nil, ptr.To(resource.MustParse("5Gi"))
		return c
	}
	legacy := claim("data", csi)
	legacy.Spec.StorageClassName = nil
	legacy.Annotations = map[string]string{v1.BetaStorageClassAnnotation: csi}
	sizeless := claim("data", csi)
	sizeless.Spec.Resources.Requests = nil
	for name, claim := range map[string]*v1.PersistentVolumeClaim{"class in an annotation": legacy, "no size": sizeless, "only a maximum size": claim("data", csi)} {
		t.Run(name, func(t *testing.T) {
			p := pod("p", "data")
			c := newCluster(t, nil, tracking(), onlyMaximum("n1"), onlyMaximum("n2"), claim, p)
			if n1, n2, pre := c.scores(p); n1 != 0 || n2 != 0 || !pre.IsSkip() {
				t.Errorf("got %d, %d, %v, want nothing to score", n1, n2, pre)
			}
		})
	}
}
