// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestBuiltInProfilesExpand(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			profile, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if profile.Description == "" {
				t.Error("no description for --help")
			}
			nodes, err := profile.Expand(profile.Size())
			if err != nil {
				t.Fatal(err)
			}
			for _, node := range nodes {
				for _, pool := range node.Pools {
					devices := map[string]bool{}
					for _, slice := range pool.Slices {
						for _, device := range slice.Devices {
							if devices[device.Name] {
								t.Errorf("%s: driver %s publishes device %s twice", node.Node.Name, pool.Driver, device.Name)
							}
							devices[device.Name] = true
						}
					}
				}
			}
		})
	}
}

func TestGPUsHaveTheirOwnUUIDAndFourShareARoot(t *testing.T) {
	profile, err := Load("gpus")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := profile.Expand(2)
	if err != nil {
		t.Fatal(err)
	}
	uuids := map[string]bool{}
	for _, node := range nodes {
		roots := map[string]int{}
		for _, device := range node.Pools[0].Slices[0].Devices {
			uuids[*device.Attributes["uuid"].StringValue] = true
			roots[*device.Attributes["resource.kubernetes.io/pcieRoot"].StringValue]++
		}
		if roots["pci0000:17"] != 4 || roots["pci0000:9a"] != 4 {
			t.Errorf("%s: GPUs by PCIe root: %v, want four on each of two", node.Node.Name, roots)
		}
	}
	if len(uuids) != 16 {
		t.Errorf("%d different uuids on 2 nodes of 8 GPUs", len(uuids))
	}
}

func TestPartitionsOfAGPUNameTheirParent(t *testing.T) {
	profile, err := Load("mig")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := profile.Expand(1)
	if err != nil {
		t.Fatal(err)
	}
	slices := nodes[0].Pools[0].Slices
	if len(slices) != 3 || len(slices[0].SharedCounters) != 2 {
		t.Fatalf("got %d slices, the first with %d counter sets; want counters and one slice per GPU", len(slices), len(slices[0].SharedCounters))
	}
	for _, slice := range slices[1:] {
		whole, partition := slice.Devices[0], slice.Devices[1]
		if *whole.Attributes["uuid"].StringValue != *partition.Attributes["parentUUID"].StringValue {
			t.Errorf("parent of %s is not %s", partition.Name, whole.Name)
		}
		if len(partition.ConsumesCounters[0].Counters) < 5 {
			t.Errorf("%s consumes only %v", partition.Name, partition.ConsumesCounters[0].Counters)
		}
	}
}

func TestNodesAreDealtToGroupsInTurn(t *testing.T) {
	profile, err := Parse([]byte(`
nodes:
- {name: a, count: 2, zones: [z1, z2], allocatable: {cpu: "1"}}
- {name: b, count: 1, allocatable: {cpu: "1"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := profile.Expand(5)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, node := range nodes {
		got = append(got, node.Node.Name+"/"+node.Node.Labels[corev1.LabelTopologyZone])
	}
	want := "a-1/z1 a-2/z2 b-1/ a-3/z1 a-4/z2"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	for name, test := range map[string]struct{ content, want string }{
		"unknown field":       {"nodes: []\nnode: x", `unknown field "node"`},
		"no nodes":            {"description: x", "nodes: Required value"},
		"no count":            {"nodes: [{name: a, allocatable: {cpu: 1}}]", "nodes[0].count: Invalid value: 0"},
		"duplicate group":     {"nodes: [{name: a, count: 1, allocatable: {cpu: 1}}, {name: a, count: 1, allocatable: {cpu: 1}}]", `nodes[1].name: Duplicate value: "a"`},
		"unknown class":       {"nodes: [{name: a, count: 1, allocatable: {cpu: 1}, localVolumes: [{storageClass: x, count: 1, capacity: 1Gi}]}]", "nodes[0].localVolumes[0].storageClass"},
		"unknown placeholder": {"nodes: [{name: a, count: 1, allocatable: {cpu: 1}, drivers: [{name: d, slices: [{devices: [{name: $(foo)}]}]}]}]", `nodes[0].drivers[0].slices[0].devices[0]: Invalid value: "$(foo)"`},
		"object without kind": {"nodes: [{name: a, count: 1, allocatable: {cpu: 1}}]\nobjects: [{apiVersion: v1, metadata: {name: x}}]", "Kind"},
		"negative delay":      {"nodes: [{name: a, count: 1, allocatable: {cpu: 1}}]\nstorage: [{driver: d, topologyKey: k, capacity: 1Gi, reportDelay: -1s}]", "storage[0].reportDelay"},
		"no capacity":         {"nodes: [{name: a, count: 1, allocatable: {cpu: 1}}]\nstorage: [{driver: d, topologyKey: k}]", "storage[0].capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.content))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestLoadTellsNamesFromFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte("nodes: [{name: a, count: 1, allocatable: {cpu: 1}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err != nil {
		t.Errorf("file: %v", err)
	}
	if _, err := Load("no-such-profile"); err == nil || !strings.Contains(err.Error(), Default) {
		t.Errorf("unknown name: got error %v, want the built-in names in it", err)
	}
}
