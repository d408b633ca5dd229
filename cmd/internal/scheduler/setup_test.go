// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/berth-scheduler/berth/cmd/internal/profile"
)

func TestConfigurationFile(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	ours, inTree := []string{"VolumeClaims", "DeviceClaims"}, []string{"VolumeBinding", "DynamicResources"}
	for name, test := range map[string]struct {
		file    string
		want    map[string][]string // of the four plugins, those of each profile
		changed []string
	}{
		"no profile": {
			file:    head,
			want:    map[string][]string{"default-scheduler": ours},
			changed: []string{"default-scheduler"},
		},
		"profile that names other plugins": {
			file: head + `
profiles:
- schedulerName: gpu
  plugins: {score: {disabled: [{name: ImageLocality}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
`,
			want:    map[string][]string{"gpu": ours},
			changed: []string{"gpu"},
		},
		"profile with arguments for an in-tree plugin": {
			file: head + `
profiles:
- schedulerName: gpu
  pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]
`,
			want: map[string][]string{"gpu": inTree},
		},
		"profile with arguments for a plugin of ours": {
			file: head + `
profiles:
- schedulerName: gpu
  pluginConfig: [{name: DeviceClaims, args: {stepBudget: 1000}}]
`,
			want:    map[string][]string{"gpu": ours},
			changed: []string{"gpu"},
		},
		"profile that disables an in-tree plugin at one point": {
			file: head + `
profiles:
- schedulerName: gpu
  plugins: {postFilter: {disabled: [{name: DynamicResources}]}}
`,
			want: map[string][]string{"gpu": inTree},
		},
		"profile that replaces one of them itself": {
			file: head + `
profiles:
- schedulerName: gpu
  plugins:
    multiPoint:
      disabled: [{name: DynamicResources}]
      enabled: [{name: DeviceClaims}]
  pluginConfig: [{name: DeviceClaims, args: {stepBudget: 1000}}]
`,
			want: map[string][]string{"gpu": {"VolumeBinding", "DeviceClaims"}},
		},
		"profile that starts from nothing": {
			file: head + `
profiles:
- schedulerName: gpu
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: DefaultBinder}]
`,
			want: map[string][]string{"gpu": nil},
		},
		"two profiles": {
			file: head + `
profiles:
- schedulerName: plain
- schedulerName: in-tree
  plugins: {multiPoint: {enabled: [{name: DynamicResources}]}}
`,
			want:    map[string][]string{"plain": ours, "in-tree": inTree},
			changed: []string{"plain"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := options.LoadConfigFromFile(klog.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			changed, err := profile.ReplaceUnnamed(cfg, []byte(test.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.changed, changed); diff != "" {
				t.Errorf("changed profiles (-want +got):\n%s", diff)
			}
			got := map[string][]string{}
			for i := range cfg.Profiles {
				var concerned []string
				for _, plugin := range cfg.Profiles[i].Plugins.MultiPoint.Enabled {
					if slices.Contains(ours, plugin.Name) || slices.Contains(inTree, plugin.Name) {
						concerned = append(concerned, plugin.Name)
					}
				}
				got[cfg.Profiles[i].SchedulerName] = concerned
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProfileWithTwoPluginsForOneJobIsRefused(t *testing.T) {
	const file = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: both
  plugins: {multiPoint: {enabled: [{name: DeviceClaims}]}}
`
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := options.LoadConfigFromFile(klog.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	err = usePlugins(klog.Background(), cfg, path)
	const want = `profile "both": DeviceClaims and DynamicResources do the same job, disable one of them`
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestFlagsAreThoseOfKubeScheduler(t *testing.T) {
	flags := NewCommand().Flags()
	for _, name := range []string{
		"kubeconfig", "config", "write-config-to", "feature-gates", "leader-elect", "leader-elect-resource-name",
		"secure-port", "authentication-kubeconfig", "master", "v", "logging-format", "version",
	} {
		if flags.Lookup(name) == nil {
			t.Errorf("flag --%s is missing", name)
		}
	}
}
