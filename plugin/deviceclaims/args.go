// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/device"
)

// ArgsAPIVersion and ArgsKind are what pluginConfig may say of the arguments. It
// may also leave both out, or name the kind of the in-tree plugin.
const (
	ArgsAPIVersion = "kubescheduler.config.k8s.io/v1"
	ArgsKind       = "DeviceClaimsArgs"
	inTreeArgsKind = "DynamicResourcesArgs"
)

// DefaultBindingTimeout is the in-tree plugin's.
const DefaultBindingTimeout = 600 * time.Second

// DeviceClaimsArgs configure the plugin, in pluginConfig of a
// KubeSchedulerConfiguration:
//
//	pluginConfig:
//	- name: DeviceClaims
//	  args:
//	    apiVersion: kubescheduler.config.k8s.io/v1
//	    kind: DeviceClaimsArgs
//	    strategy: Packed
//	    topologyAttributes: [resource.kubernetes.io/pcieRoot]
//
// All fields of the in-tree DynamicResourcesArgs are accepted, so that a
// pluginConfig can be kept when the plugin is replaced.
type DeviceClaimsArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Strategy says which of all devices that would do a pod gets, and which of its
	// nodes is better: "Packed" leaves the most useful remainder, "InOrder" takes
	// what the in-tree plugin takes. Default: Packed.
	Strategy string `json:"strategy,omitempty"`
	// TopologyAttributes are the attributes (domain/name) whose values group devices
	// that are best used together, the most important one first. They count only
	// for Packed, which breaks complete groups last. An empty list means none.
	// Default: resource.kubernetes.io/pcieRoot, resource.kubernetes.io/numaNode.
	TopologyAttributes []resourceapi.FullyQualifiedName `json:"topologyAttributes,omitempty"`
	// StepBudget is how many steps the search for devices may take on one node.
	// A step is a constant amount of work. Default: device.DefaultBudget.
	StepBudget *int64 `json:"stepBudget,omitempty"`
	// BindingTimeout is how long after its allocation a claim may wait for the
	// binding conditions of its devices, at least a second. Default:
	// DefaultBindingTimeout.
	BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`
	// FilterTimeout is the in-tree plugin's bound for the search on one node. It
	// must not be negative and has no effect: StepBudget is the bound.
	FilterTimeout *metav1.Duration `json:"filterTimeout,omitempty"`
}

// readArgs returns the arguments with their defaults. It reads strictly: a field
// that does not exist is an error that names it. Fields of other types that are
// not set do not count. All that is wrong is reported at once.
func readArgs(obj runtime.Object) (*DeviceClaimsArgs, error) {
	raw, err := rawArgs(obj)
	if err != nil {
		return nil, err
	}
	args := &DeviceClaimsArgs{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(args); err != nil {
		return nil, fmt.Errorf("decode arguments of %s: %w", Name, err)
	}
	args.setDefaults()
	if err := args.validate(); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", Name, err)
	}
	return args, nil
}

// strategies are the values of Strategy.
var strategies = map[string]device.Strategy{"Packed": device.Packed, "InOrder": device.InOrder}

// maxTopologyAttributes bounds what the packing of every node has to look at.
const maxTopologyAttributes = 8

func (a *DeviceClaimsArgs) setDefaults() {
	if a.Strategy == "" {
		a.Strategy = "Packed"
	}
	if a.StepBudget == nil {
		budget := device.DefaultBudget
		a.StepBudget = &budget
	}
	if a.BindingTimeout == nil {
		a.BindingTimeout = &metav1.Duration{Duration: DefaultBindingTimeout}
	}
}

func (a *DeviceClaimsArgs) validate() error {
	var errs []error
	if !slices.Contains([]string{"", ArgsAPIVersion}, a.APIVersion) {
		errs = append(errs, fmt.Errorf("apiVersion: %q is not %s", a.APIVersion, ArgsAPIVersion))
	}
	if !slices.Contains([]string{"", ArgsKind, inTreeArgsKind}, a.Kind) {
		errs = append(errs, fmt.Errorf("kind: %q is not %s", a.Kind, ArgsKind))
	}
	if _, ok := strategies[a.Strategy]; !ok {
		errs = append(errs, fmt.Errorf("strategy: %q is neither Packed nor InOrder", a.Strategy))
	}
	if len(a.TopologyAttributes) > maxTopologyAttributes {
		errs = append(errs, fmt.Errorf("topologyAttributes: %d are more than %d", len(a.TopologyAttributes), maxTopologyAttributes))
	}
	for i, attribute := range a.TopologyAttributes {
		if err := checkAttribute(attribute); err != nil {
			errs = append(errs, fmt.Errorf("topologyAttributes[%d]: %w", i, err))
		}
		if slices.Contains(a.TopologyAttributes[:i], attribute) {
			errs = append(errs, fmt.Errorf("topologyAttributes[%d]: %q is there twice", i, attribute))
		}
	}
	if *a.StepBudget <= 0 {
		errs = append(errs, fmt.Errorf("stepBudget: %d is not positive", *a.StepBudget))
	}
	if a.BindingTimeout.Duration < time.Second {
		errs = append(errs, fmt.Errorf("bindingTimeout: %v is less than a second", a.BindingTimeout.Duration))
	}
	if a.FilterTimeout != nil && a.FilterTimeout.Duration < 0 {
		errs = append(errs, fmt.Errorf("filterTimeout: %v is negative", a.FilterTimeout.Duration))
	}
	return errors.Join(errs...)
}

// checkAttribute says what is wrong with a name of an attribute
// (resource.FullyQualifiedName): a domain, a slash and a C identifier.
func checkAttribute(name resourceapi.FullyQualifiedName) error {
	domain, id, ok := strings.Cut(string(name), "/")
	if !ok {
		return fmt.Errorf("%q has no domain, as in resource.kubernetes.io/pcieRoot", name)
	}
	if problems := append(validation.IsDNS1123Subdomain(domain), validation.IsCIdentifier(id)...); len(problems) > 0 {
		return fmt.Errorf("%q: %s", name, strings.Join(problems, "; "))
	}
	return nil
}

// rawArgs returns the arguments as a JSON object without fields that are null.
func rawArgs(obj runtime.Object) ([]byte, error) {
	var raw []byte
	var err error
	switch obj := obj.(type) {
	case nil:
		return []byte("{}"), nil
	case *runtime.Unknown:
		if len(obj.Raw) == 0 {
			return []byte("{}"), nil
		}
		raw, err = yaml.YAMLToJSONStrict(obj.Raw)
	default:
		raw, err = json.Marshal(obj)
	}
	if err != nil {
		return nil, fmt.Errorf("read arguments of %s: %w", Name, err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("read arguments of %s: %w", Name, err)
	}
	for name, value := range fields {
		if string(value) == "null" {
			delete(fields, name)
		}
	}
	return json.Marshal(fields)
}
