// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/volume"
)

// ArgsKind is the kind that the args of this plugin name in pluginConfig.
// The kind of the in-tree plugin is accepted too.
const (
	ArgsKind       = "VolumeClaimsArgs"
	inTreeArgsKind = "VolumeBindingArgs"
)

// Defaults of the Args.
const (
	// DefaultBindTimeout is the in-tree plugin's.
	DefaultBindTimeout = 600 * time.Second
	// DefaultCapacitySettle is longer than drivers take to report what a new
	// volume has left.
	DefaultCapacitySettle = 2 * time.Minute
)

// CapacityCheck is how the claims of a pod are held against the capacity that a
// driver reports.
type CapacityCheck string

const (
	// CheckSum holds the sum of all claims, those of other pods that the report
	// does not show yet included, against the reported capacity. The default.
	CheckSum CapacityCheck = "Sum"
	// CheckEach holds each claim alone against it, for drivers that can make more
	// than they report (thin provisioning).
	CheckEach CapacityCheck = "Each"
)

// Args configure the plugin. They include the fields of the in-tree
// VolumeBindingArgs, so that a pluginConfig can be kept as it is.
type Args struct {
	metav1.TypeMeta `json:",inline"`

	// BindTimeout is how long PreBind waits for the claims of a pod to be bound.
	// Zero means not at all; nil means DefaultBindTimeout.
	BindTimeout *metav1.Duration `json:"bindTimeout,omitempty"`
	// BindTimeoutSeconds is the same under the name that the in-tree plugin has
	// for it. Only one of the two may be set.
	BindTimeoutSeconds *int64 `json:"bindTimeoutSeconds,omitempty"`

	// Shape scores a node by how much of the storage concerned would be in use:
	// of the capacity that a driver reports for volumes that are to be made, and
	// of an existing volume by the claim that goes on it. By default nodes with
	// most free storage are preferred, and volumes with the least waste.
	Shape []ShapePoint `json:"shape,omitempty"`
	// StaticShape, when it is set, is the shape for existing volumes.
	StaticShape []ShapePoint `json:"staticShape,omitempty"`

	// CapacityCheck is Sum by default.
	CapacityCheck CapacityCheck `json:"capacityCheck,omitempty"`
	// CapacitySettle is how long a claim that was bound still counts against the
	// reported capacity if the driver does not report it anew. Zero means not at
	// all, for drivers that report before they say that a volume is made; nil means
	// DefaultCapacitySettle.
	CapacitySettle *metav1.Duration `json:"capacitySettle,omitempty"`
}

// ShapePoint is one point of a scoring shape. Between two points the score is
// linear, before the first and after the last it is theirs.
type ShapePoint struct {
	// Utilization in percent, 0 to 100.
	Utilization int32 `json:"utilization"`
	// Score, 0 to 10.
	Score int32 `json:"score"`
}

var _ runtime.Object = (*Args)(nil)

// DeepCopyObject returns a copy that shares nothing with the args.
func (a *Args) DeepCopyObject() runtime.Object {
	out := *a
	out.BindTimeout = clone(a.BindTimeout)
	out.BindTimeoutSeconds = clone(a.BindTimeoutSeconds)
	out.Shape = slices.Clone(a.Shape)
	out.StaticShape = slices.Clone(a.StaticShape)
	out.CapacitySettle = clone(a.CapacitySettle)
	return &out
}

func clone[T any](from *T) *T {
	if from == nil {
		return nil
	}
	return ptr.To(*from)
}

// readArgs accepts nil, raw JSON or YAML, and any object by its JSON form. What
// it returns is defaulted and valid.
func readArgs(obj runtime.Object) (Args, error) {
	var raw []byte
	switch obj := obj.(type) {
	case nil:
	case *runtime.Unknown:
		raw = obj.Raw
	default:
		var err error
		if raw, err = json.Marshal(obj); err != nil {
			return Args{}, fmt.Errorf("encoding args of type %T: %w", obj, err)
		}
	}
	var args Args
	if err := yaml.UnmarshalStrict(raw, &args); err != nil {
		return Args{}, fmt.Errorf("decoding %s: %w", ArgsKind, err)
	}
	if err := args.validate(); err != nil {
		return Args{}, err
	}
	args.setDefaults()
	return args, nil
}

func (a *Args) setDefaults() {
	switch {
	case a.BindTimeout != nil:
	case a.BindTimeoutSeconds != nil:
		a.BindTimeout = &metav1.Duration{Duration: time.Duration(*a.BindTimeoutSeconds) * time.Second}
	default:
		a.BindTimeout = &metav1.Duration{Duration: DefaultBindTimeout}
	}
	if len(a.StaticShape) == 0 {
		a.StaticShape = a.Shape
	}
	if len(a.StaticShape) == 0 {
		a.StaticShape = []ShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: maxShapeScore}}
	}
	if len(a.Shape) == 0 {
		a.Shape = []ShapePoint{{Utilization: 0, Score: maxShapeScore}, {Utilization: 100, Score: 0}}
	}
	if a.CapacityCheck == "" {
		a.CapacityCheck = CheckSum
	}
	if a.CapacitySettle == nil {
		a.CapacitySettle = &metav1.Duration{Duration: DefaultCapacitySettle}
	}
}

func (a *Args) validate() error {
	var errs field.ErrorList
	if a.Kind != "" && a.Kind != ArgsKind && a.Kind != inTreeArgsKind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), a.Kind, []string{ArgsKind, inTreeArgsKind}))
	}
	if d := a.BindTimeout; d != nil && d.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("bindTimeout"), d.Duration.String(), "must not be negative"))
	}
	if d := a.CapacitySettle; d != nil && d.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacitySettle"), d.Duration.String(), "must not be negative"))
	}
	if seconds := a.BindTimeoutSeconds; seconds != nil {
		path := field.NewPath("bindTimeoutSeconds")
		switch {
		case a.BindTimeout != nil:
			errs = append(errs, field.Forbidden(path, "bindTimeout is set too"))
		case *seconds < 0:
			errs = append(errs, field.Invalid(path, *seconds, "must not be negative"))
		case *seconds > math.MaxInt64/int64(time.Second):
			errs = append(errs, field.Invalid(path, *seconds, "is more than a duration can hold"))
		}
	}
	errs = append(errs, validShape(field.NewPath("shape"), a.Shape)...)
	errs = append(errs, validShape(field.NewPath("staticShape"), a.StaticShape)...)
	switch a.CapacityCheck {
	case "", CheckSum, CheckEach:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("capacityCheck"), a.CapacityCheck, []CapacityCheck{CheckSum, CheckEach}))
	}
	return errs.ToAggregate()
}

// options are what the engine is told.
func (a *Args) options() volume.Options {
	if a.CapacityCheck == CheckEach {
		return volume.Options{Capacity: volume.CheckEach}
	}
	return volume.Options{}
}
