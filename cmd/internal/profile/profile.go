// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/plugin/deviceclaims"
	"github.com/berth-scheduler/berth/plugin/volumeclaims"
)

// replacement is a plugin of ours and the in-tree plugin whose place it takes.
type replacement struct {
	inTree, ours string
	factory      frameworkruntime.PluginFactory
}

var replacements = []replacement{
	{names.DynamicResources, deviceclaims.Name, deviceclaims.New},
	{names.VolumeBinding, volumeclaims.Name, volumeclaims.New},
}

// Registry returns the factories of Berth's plugins, to be merged with the
// in-tree ones.
func Registry() frameworkruntime.Registry {
	registry := frameworkruntime.Registry{}
	for _, r := range replacements {
		registry[r.ours] = r.factory
	}
	return registry
}

// RegistryFor returns the Registry for a scheduler with these profiles.
func RegistryFor(profiles []config.KubeSchedulerProfile) frameworkruntime.Registry {
	registry := Registry()
	for i := range profiles {
		if slices.Contains(Plugins(&profiles[i]), names.DynamicResources) {
			registry[deviceclaims.Name] = deviceclaims.NewBesideInTree
		}
	}
	return registry
}

// Default returns kube-scheduler's defaulted configuration, as the
// feature gates have it, with Berth's plugins in place.
func Default() (*config.KubeSchedulerConfiguration, error) {
	cfg, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("make the default configuration: %w", err)
	}
	for i := range cfg.Profiles {
		Replace(&cfg.Profiles[i])
	}
	return cfg, nil
}

// Replace puts Berth's plugins where the in-tree ones stand in a defaulted
// profile, with the same position and weight, and drops the arguments of those
// that it replaced. It returns the names of the plugins that it put in.
func Replace(profile *config.KubeSchedulerProfile) []string {
	if profile.Plugins == nil {
		return nil
	}
	var put []string
	for _, set := range pluginSets(profile.Plugins) {
		for _, plugins := range [][]config.Plugin{set.Enabled, set.Disabled} {
			for i := range plugins {
				if r, ok := replacing(plugins[i].Name); ok {
					plugins[i].Name = r.ours
					if !slices.Contains(put, r.ours) {
						put = append(put, r.ours)
					}
				}
			}
		}
	}
	profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(c config.PluginConfig) bool {
		r, ok := replacing(c.Name)
		return ok && slices.Contains(put, r.ours)
	})
	return put
}

// ReplaceUnnamed replaces in those profiles of a defaulted configuration that
// name none of the plugins concerned in the file which it was loaded from. It
// returns the names of the profiles that it changed.
func ReplaceUnnamed(cfg *config.KubeSchedulerConfiguration, file []byte) ([]string, error) {
	// The file was decoded strictly before. What is of interest here is what it
	// says itself, without the defaults.
	var written configv1.KubeSchedulerConfiguration
	if err := yaml.Unmarshal(file, &written); err != nil {
		return nil, fmt.Errorf("read its profiles: %w", err)
	}
	var changed []string
	for i := range cfg.Profiles {
		if i < len(written.Profiles) && namesAny(&written.Profiles[i]) {
			continue
		}
		if put := Replace(&cfg.Profiles[i]); len(put) > 0 {
			changed = append(changed, cfg.Profiles[i].SchedulerName)
		}
	}
	return changed, nil
}

func namesAny(profile *configv1.KubeSchedulerProfile) bool {
	named := func(name string) bool {
		return slices.ContainsFunc(replacements, func(r replacement) bool { return name == r.inTree || name == r.ours })
	}
	// Arguments for a plugin of ours are given by those who want it.
	if slices.ContainsFunc(profile.PluginConfig, func(c configv1.PluginConfig) bool { _, inTree := replacing(c.Name); return inTree }) {
		return true
	}
	if profile.Plugins == nil {
		return false
	}
	for _, set := range writtenSets(profile.Plugins) {
		for _, plugins := range [][]configv1.Plugin{set.Enabled, set.Disabled} {
			if slices.ContainsFunc(plugins, func(p configv1.Plugin) bool { return named(p.Name) }) {
				return true
			}
		}
	}
	return false
}

// Plugins returns which of the plugins concerned a profile enables at any
// extension point.
func Plugins(profile *config.KubeSchedulerProfile) []string {
	if profile.Plugins == nil {
		return nil
	}
	var enabled []string
	for _, r := range replacements {
		for _, name := range []string{r.inTree, r.ours} {
			if slices.ContainsFunc(pluginSets(profile.Plugins), func(set *config.PluginSet) bool {
				return slices.ContainsFunc(set.Enabled, func(p config.Plugin) bool { return p.Name == name })
			}) {
				enabled = append(enabled, name)
			}
		}
	}
	return enabled
}

// CheckRivals refuses a profile with two plugins for the same job: each would
// allocate or bind the same claims.
func CheckRivals(profile *config.KubeSchedulerProfile) error {
	enabled := Plugins(profile)
	for _, r := range replacements {
		if slices.Contains(enabled, r.inTree) && slices.Contains(enabled, r.ours) {
			return fmt.Errorf("%s and %s do the same job, disable one of them", r.ours, r.inTree)
		}
	}
	return nil
}

func replacing(inTree string) (replacement, bool) {
	i := slices.IndexFunc(replacements, func(r replacement) bool { return r.inTree == inTree })
	if i < 0 {
		return replacement{}, false
	}
	return replacements[i], true
}

func pluginSets(p *config.Plugins) []*config.PluginSet {
	return []*config.PluginSet{
		&p.MultiPoint, &p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore,
		&p.Score, &p.Reserve, &p.Permit, &p.PreBind, &p.Bind, &p.PostBind, &p.PlacementGenerate,
		&p.PlacementScore, &p.PodGroupPostFilter,
	}
}

func writtenSets(p *configv1.Plugins) []*configv1.PluginSet {
	return []*configv1.PluginSet{
		&p.MultiPoint, &p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore,
		&p.Score, &p.Reserve, &p.Permit, &p.PreBind, &p.Bind, &p.PostBind, &p.PlacementGenerate,
		&p.PlacementScore, &p.PodGroupPostFilter,
	}
}
