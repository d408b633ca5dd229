// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package drivers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// The answers that those who collected the files give, with what they ask beyond
// the files: one pod more, another node, a claim that leaves something out.
func TestKnownAnswers(t *testing.T) {
	if _, err := os.Stat(real); err != nil {
		t.Skip("the files of real drivers are not here")
	}
	for _, c := range []struct {
		file, namespace string
		variant         variant
		want            placed
	}{
		{"nvidia-gpu-full", "gpu-test6", variant{}, placed{"pod-0": none("NotEnoughDevices", 3), "pod-3": none("NotEnoughDevices", 3)}},
		{"nvidia-gpu-full", "kubecon-demo", variant{}, placed{"training-pod": "gpu-a100-0 gpu=gpu-0", "inference-pod": none("NotEnoughDevices", 3)}},
		{"nvidia-gpu-full", "gpu-test3", variant{}, placed{"pod1": "gpu-a100-0 gpu=gpu-0", "pod2": "gpu-a100-0"}},

		{"nvidia-consumable-shares", "gpu-share-integer", variant{again: 1}, placed{
			"integer-sharing-0": "gpu-int-0 gpu=gpu-0", "integer-sharing-3": "gpu-int-0 gpu=gpu-0", "again-0": none("CapacityShort", 1),
		}},
		{"nvidia-consumable-shares", "gpu-share-memory", variant{again: 9}, placed{
			"memory-sharing-1": "gpu-mem-0 gpu=gpu-0", "again-7": "gpu-mem-0 gpu=gpu-0", "again-8": none("CapacityShort", 1),
		}},
		{"nvidia-consumable-shares", "gpu-share-memory", variant{again: 1, claim: withoutCapacity}, placed{"again-0": none("CapacityShort", 1)}},
		{"nvidia-consumable-shares", "gpu-share-unlimited", variant{again: 40}, placed{"again-39": "gpu-unl-0 gpu=gpu-0"}},

		{"nvidia-mig-partitionable", "gpu-test4", variant{again: 1}, placed{
			"pod-0":   "mig-a100-0 mig-1g-5gb-0=gpu-0-mig-1g5gb-19-0 mig-1g-5gb-1=gpu-0-mig-1g5gb-19-1 mig-2g-10gb=gpu-0-mig-2g10gb-14-2 mig-3g-20gb=gpu-0-mig-3g20gb-9-4",
			"pod-3":   "mig-a100-0 mig-1g-5gb-0=gpu-3-mig-1g5gb-19-0 mig-1g-5gb-1=gpu-3-mig-1g5gb-19-1 mig-2g-10gb=gpu-3-mig-2g10gb-14-2 mig-3g-20gb=gpu-3-mig-3g20gb-9-4",
			"again-0": "none CountersShort NotEnoughDevices",
		}},
		{"nvidia-mig-partitionable", "bats-gpu-multiple-mig", variant{}, placed{"pod-2mig": "mig-a100-0 mig1=gpu-0-mig-1g10gb-15-0 mig2=gpu-1-mig-4g20gb-5-0"}},
		{"nvidia-mig-partitionable", "bats-gpu-simple-full", variant{again: 2}, placed{
			"pod-full-gpu": "mig-h100-0 gpu=gpu-0", "again-0": "mig-h100-0 gpu=gpu-1", "again-1": "none NoDeviceOfClass NotEnoughDevices",
		}},
		{"nvidia-mig-partitionable", "extended-resource-mig-1g12gb", variant{}, placed{"mig-1g12gb-pod": none("NoDeviceOfClass", 2)}},

		{"dra-example-driver", "partitionable-devices", variant{}, placed{"pod0": "ex-part gpu-partition=gpu-0-partition-0 gpu-partition=gpu-0-partition-1"}},
		{"dra-example-driver", "gpu-allow-multiple-allocations", variant{}, placed{"pod0": "ex-multi gpu=gpu-0", "pod1": "ex-multi gpu=gpu-0"}},
		{"dra-example-driver", "native-resource-request", variant{}, placed{"pod0": "ex-cpu cpu0=numa-0 cpu1=numa-0"}},

		{"intel-gpu", "intel-memory-selector-pod", variant{}, placed{"memory-selector-test": "intel-node-0 gpu=0000-04-00-0-0xe211"}},
		{"intel-gpu", "intel-deployment-inline", variant{}, placed{"gpu-test-0": "intel-node-0 gpu=0000-04-00-0-0xe211"}},
		{"intel-gpu", "intel-family-selector-pod", variant{}, placed{"family-selector-test": none("NotEnoughDevices", 1)}},
		{"intel-gpu", "intel-external", variant{}, placed{"test-one-flex": none("NotEnoughDevices", 1)}},
		{"intel-gpu", "intel-pod-inline-gpu-dranet", variant{}, placed{"test-inline-claim": none("NoDeviceOfClass", 1)}},

		{"tpu", "tpu-tpu-test", variant{again: 2}, placed{
			"tpu-pod0": "tpu-v4-0 tpus=accel0 tpus=accel1", "again-0": "tpu-v6e-0 tpus=0 tpus=1 tpus=2 tpus=3", "again-1": none("NotEnoughDevices", 2),
		}},
		{"tpu", "tpu-multi-tpu-pod", variant{}, placed{"multi-tpu-pod": none("NotEnoughDevices", 1)}},
		{"tpu", "tpu-multi-tpu-pod", variant{again: 1, pod: toleratesTPU}, placed{"again-0": "tpu-v6e-0 tpus=0 tpus=1 tpus=2 tpus=3"}},

		{"cpu-driver", "pod-with-pod-level-resources", variant{}, placed{"pod-with-pod-level-resources": "cpu-grouped-0 req-cpu-slice=cpudevnuma000 req-cpu-slice-2=cpudevnuma000"}},
		{"cpu-driver", "cpus-on-numa0", variant{}, placed{"cpus-on-numa0": "cpu-grouped-0 cpus=cpudevnuma000"}},
		{"cpu-driver", "pod-with-resource-claim-individual-mode", variant{on: "cpu-grouped-0"}, placed{"my-app-with-dra-cpu": none("NotEnoughDevices", 1)}},
		{"cpu-driver", "pod-with-resource-claim-grouped-mode", variant{on: "cpu-individual-0"}, placed{"pod-cpu-dra-claim": none("NotEnoughDevices", 1)}},

		{"devicetaintrule", "basic-resourceclaimtemplate", variant{}, placed{"pod-no-toleration": "taint-0 gpu=gpu-2", "pod-with-toleration": "taint-0 gpu=gpu-0"}},
		{"devicetaintrule", "basic-resourceclaimtemplate", variant{on: "taint-1"}, placed{"pod-no-toleration": "taint-1 gpu=gpu-1"}},

		{"admin-access", "tenants", variant{}, placed{"tenant-2": "adm-0 gpu=gpu-2", "tenant-3": "none NotEnoughDevices NoDeviceOfClass"}},
		{"admin-access", "admin-access", variant{}, placed{"pod0": "adm-0 admin-gpu=gpu-0 admin-gpu=gpu-1 admin-gpu=gpu-2"}},
		{"admin-access", "intel-monitor", variant{}, placed{"monitor-pod": "adm-1 gpu=0000-00-02-0-0x7d67 gpu=0000-04-00-0-0xe211"}},
		{"admin-access", "intel-monitor", variant{again: 1, claim: withoutTolerations}, placed{"again-0": "none NoDeviceOfClass NotEnoughDevices"}},
	} {
		t.Run(fmt.Sprint(c.file, "/", c.namespace), func(t *testing.T) {
			_, answers := load(t, filepath.Join(real, c.file+".yaml")).run(t, c.namespace, c.variant)
			for name, want := range c.want {
				if answers[name] != want {
					t.Errorf("%s: got %q, want %q", name, answers[name], want)
				}
			}
		})
	}
}

// none is no node, for one reason on so many of them.
func none(code string, nodes int) string {
	answer := "none"
	for range nodes {
		answer += " " + code
	}
	return answer
}

func withoutCapacity(c *resourceapi.DeviceClaim) {
	for i := range c.Requests {
		c.Requests[i].Exactly.Capacity = nil
	}
}

func withoutTolerations(c *resourceapi.DeviceClaim) {
	for i := range c.Requests {
		c.Requests[i].Exactly.Tolerations = nil
	}
}

func toleratesTPU(p *v1.Pod) {
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "google.com/tpu", Operator: v1.TolerationOpExists})
}
