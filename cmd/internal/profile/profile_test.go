// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
)

func TestDefaultDiffersFromUpstreamInNamesOnly(t *testing.T) {
	upstream, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	expected := upstream.DeepCopy()
	for i, plugin := range expected.Profiles[0].Plugins.MultiPoint.Enabled {
		switch plugin.Name {
		case "DynamicResources":
			expected.Profiles[0].Plugins.MultiPoint.Enabled[i].Name = "DeviceClaims"
		case "VolumeBinding":
			expected.Profiles[0].Plugins.MultiPoint.Enabled[i].Name = "VolumeClaims"
		}
	}
	expected.Profiles[0].PluginConfig = slices.DeleteFunc(expected.Profiles[0].PluginConfig, func(c config.PluginConfig) bool {
		return c.Name == "DynamicResources" || c.Name == "VolumeBinding"
	})
	if diff := cmp.Diff(expected, ours); diff != "" {
		t.Errorf("default configuration (-want +got):\n%s", diff)
	}

	names := multiPoint(&ours.Profiles[0])
	devices, preemption := slices.Index(names, "DeviceClaims"), slices.Index(names, "DefaultPreemption")
	if devices < 0 || devices > preemption {
		t.Errorf("DeviceClaims must stand before DefaultPreemption: %v", names)
	}
	if !slices.Contains(names, "VolumeClaims") {
		t.Errorf("VolumeClaims is missing: %v", names)
	}
}

func TestRegistryHasEveryReplacement(t *testing.T) {
	registry := Registry()
	for _, name := range []string{"DeviceClaims", "VolumeClaims"} {
		if registry[name] == nil {
			t.Errorf("no factory for %s", name)
		}
	}
}

func multiPoint(profile *config.KubeSchedulerProfile) []string {
	var names []string
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		names = append(names, plugin.Name)
	}
	return names
}
