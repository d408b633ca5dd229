// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Profile describes a simulated cluster. The package documentation explains
// its fields.
type Profile struct {
	Description  string                      `json:"description,omitempty"`
	FeatureGates map[string]bool             `json:"featureGates,omitempty"`
	Nodes        []NodeGroup                 `json:"nodes"`
	Storage      []Storage                   `json:"storage,omitempty"`
	Objects      []unstructured.Unstructured `json:"objects,omitempty"`
}

// NodeGroup is a number of nodes that differ in name and zone only.
type NodeGroup struct {
	Name         string              `json:"name"`
	Count        int                 `json:"count"`
	Region       string              `json:"region,omitempty"`
	Zones        []string            `json:"zones,omitempty"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Taints       []corev1.Taint      `json:"taints,omitempty"`
	Allocatable  corev1.ResourceList `json:"allocatable"`
	Drivers      []Driver            `json:"drivers,omitempty"`
	LocalVolumes []LocalVolumes      `json:"localVolumes,omitempty"`
}

// Driver is a DRA driver that publishes one pool per node.
type Driver struct {
	Name   string  `json:"name"`
	Slices []Slice `json:"slices"`
}

// Slice becomes one ResourceSlice, or several when it is repeated.
type Slice struct {
	Repeat         int          `json:"repeat,omitempty"`
	SharedCounters []CounterSet `json:"sharedCounters,omitempty"`
	Devices        []Device     `json:"devices,omitempty"`
}

// CounterSet is one counter set, or several when it is repeated.
type CounterSet struct {
	Repeat                 int `json:"repeat,omitempty"`
	resourceapi.CounterSet `json:",inline"`
}

// Device is one device, or several when it is repeated.
type Device struct {
	Repeat             int `json:"repeat,omitempty"`
	resourceapi.Device `json:",inline"`
}

// LocalVolumes are static PersistentVolumes on each node of a group.
type LocalVolumes struct {
	StorageClass string            `json:"storageClass"`
	Count        int               `json:"count"`
	Capacity     resource.Quantity `json:"capacity"`
}

// Storage is a CSI driver that provisions volumes.
type Storage struct {
	Driver            string             `json:"driver"`
	TopologyKey       string             `json:"topologyKey"`
	Capacity          resource.Quantity  `json:"capacity"`
	MaximumVolumeSize *resource.Quantity `json:"maximumVolumeSize,omitempty"`
	ReportDelay       metav1.Duration    `json:"reportDelay,omitzero"`
}

// Default is the profile that is used when none is named.
const Default = "demo"

//go:embed *.yaml
var embedded embed.FS

// Names lists the built-in profiles in alphabetical order.
func Names() []string {
	entries, err := fs.ReadDir(embedded, ".")
	if err != nil {
		// The embedded file system is part of the program.
		panic(err)
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))
	}
	return names
}

// Load reads a built-in profile by its name, or a profile from a file: what
// has a path separator or ends in .yaml, .yml or .json is a file.
func Load(nameOrFile string) (*Profile, error) {
	content, err := read(nameOrFile)
	if err != nil {
		return nil, err
	}
	profile, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", nameOrFile, err)
	}
	return profile, nil
}

func read(nameOrFile string) ([]byte, error) {
	switch filepath.Ext(nameOrFile) {
	case ".yaml", ".yml", ".json":
		return readFile(nameOrFile)
	}
	if strings.ContainsRune(nameOrFile, filepath.Separator) {
		return readFile(nameOrFile)
	}
	content, err := embedded.ReadFile(nameOrFile + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("profile %q is neither a file (*.yaml) nor one of the built-in profiles %s", nameOrFile, strings.Join(Names(), ", "))
	}
	return content, nil
}

func readFile(name string) ([]byte, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	return content, nil
}

// Parse reads and validates a profile.
func Parse(content []byte) (*Profile, error) {
	profile := &Profile{}
	if err := yaml.UnmarshalStrict(content, profile); err != nil {
		return nil, err
	}
	if err := profile.validate(); err != nil {
		return nil, err
	}
	return profile, nil
}
