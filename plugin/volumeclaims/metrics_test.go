// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	storage "k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/reason"
)

// counted returns how often each value of the label was counted or observed.
func counted(t *testing.T, metric, label string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "berth_volume_claims_"+metric {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				if pair.GetName() == label {
					values[pair.GetValue()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return values
}

func wantMore(t *testing.T, before, after map[string]float64, values ...string) {
	t.Helper()
	for _, value := range values {
		if after[value] <= before[value] {
			t.Errorf("%s was not counted: %v, before %v", value, after, before)
		}
	}
}

func TestEveryStageIsMeasured(t *testing.T) {
	p := pod("p", "disk", "data")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("disk", local), claim("data", csi), p)
	if _, err := New(c.ctx, nil, c.plugin.handle); err != nil {
		t.Fatalf("a second profile: %v", err)
	}
	before := counted(t, "stage_duration_seconds", "stage")
	ends := counted(t, "commits_total", "end")
	done := c.mustSchedule(p, "n1").preBind()
	c.eventually("the plan to be written", func() bool {
		return c.volume("pv").Spec.ClaimRef != nil && c.claim("data").Annotations[storage.AnnSelectedNode] != ""
	})
	c.provision("data", "made", "n1")
	c.bind("made")
	c.bind("pv")
	c.must(c.result(done))
	var all []string
	for _, s := range stages {
		all = append(all, string(s))
	}
	wantMore(t, before, counted(t, "stage_duration_seconds", "stage"), all...)
	wantMore(t, ends, counted(t, "commits_total", "end"), endBound)
}

func TestEveryReasonIsCounted(t *testing.T) {
	p := pod("p", "data")
	c := newCluster(t, nil, volumeOn("pv", local, "n1"), claim("data", local), p)
	before, ends := counted(t, "rejections_total", "reason"), counted(t, "commits_total", "end")
	c.schedule(pod("q", "missing"), "n1")
	if _, status := c.schedule(p, "n2"); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Fatalf("got %v, want that node n2 is refused", status)
	}
	done := c.mustSchedule(p, "n1").preBind()
	c.updateClaim("data", func(claim *v1.PersistentVolumeClaim) { claim.Status.Phase = v1.ClaimLost })
	c.wantEnd(done, ClaimLost)
	wantMore(t, before, counted(t, "rejections_total", "reason"), string(reason.VolumeClaimNotFound), string(reason.NoVolume))
	wantMore(t, ends, counted(t, "commits_total", "end"), string(ClaimLost))
}
