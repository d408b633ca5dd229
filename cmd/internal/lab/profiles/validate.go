// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate finds what the API server would not find, or would only report for
// an object that the reader of the profile does not know.
func (p *Profile) validate() error {
	var errs field.ErrorList
	classes := p.storageClasses()

	path := field.NewPath("nodes")
	if len(p.Nodes) == 0 {
		errs = append(errs, field.Required(path, "a cluster has nodes"))
	}
	groups := sets.New[string]()
	for i, group := range p.Nodes {
		path := path.Index(i)
		if groups.Has(group.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), group.Name))
		}
		groups.Insert(group.Name)
		errs = append(errs, group.validate(path, classes)...)
	}

	path = field.NewPath("storage")
	drivers := sets.New[string]()
	for i, storage := range p.Storage {
		path := path.Index(i)
		if drivers.Has(storage.Driver) {
			errs = append(errs, field.Duplicate(path.Child("driver"), storage.Driver))
		}
		drivers.Insert(storage.Driver)
		errs = append(errs, validName(path.Child("driver"), storage.Driver)...)
		errs = append(errs, required(path.Child("topologyKey"), storage.TopologyKey)...)
		if storage.Capacity.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("capacity"), storage.Capacity.String(), "must be more than 0"))
		}
		if storage.ReportDelay.Duration < 0 {
			errs = append(errs, field.Invalid(path.Child("reportDelay"), storage.ReportDelay.Duration.String(), "must not be negative"))
		}
	}

	path = field.NewPath("objects")
	for i, object := range p.Objects {
		path := path.Index(i)
		errs = append(errs, required(path.Child("apiVersion"), object.GetAPIVersion())...)
		errs = append(errs, required(path.Child("kind"), object.GetKind())...)
		errs = append(errs, required(path.Child("metadata", "name"), object.GetName())...)
	}
	return errs.ToAggregate()
}

func (g *NodeGroup) validate(path *field.Path, classes sets.Set[string]) field.ErrorList {
	errs := validName(path.Child("name"), g.Name)
	errs = append(errs, positive(path.Child("count"), g.Count)...)
	if len(g.Allocatable) == 0 {
		errs = append(errs, field.Required(path.Child("allocatable"), "no pod fits on a node without cpu, memory and pods"))
	}
	drivers := sets.New[string]()
	for i, driver := range g.Drivers {
		path := path.Child("drivers").Index(i)
		if drivers.Has(driver.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), driver.Name))
		}
		drivers.Insert(driver.Name)
		errs = append(errs, driver.validate(path)...)
	}
	for i, volumes := range g.LocalVolumes {
		path := path.Child("localVolumes").Index(i)
		if !classes.Has(volumes.StorageClass) {
			errs = append(errs, field.Invalid(path.Child("storageClass"), volumes.StorageClass, "is not among the StorageClasses in objects"))
		}
		errs = append(errs, positive(path.Child("count"), volumes.Count)...)
		if volumes.Capacity.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child("capacity"), volumes.Capacity.String(), "must be more than 0"))
		}
	}
	return errs
}

func (d *Driver) validate(path *field.Path) field.ErrorList {
	errs := validName(path.Child("name"), d.Name)
	for i, slice := range d.Slices {
		path := path.Child("slices").Index(i)
		errs = append(errs, repeatable(path, slice.Repeat)...)
		for j, set := range slice.SharedCounters {
			path := path.Child("sharedCounters").Index(j)
			errs = append(errs, repeatable(path, set.Repeat)...)
			errs = append(errs, knownPlaceholders(path, set.CounterSet)...)
		}
		for j, device := range slice.Devices {
			path := path.Child("devices").Index(j)
			errs = append(errs, repeatable(path, device.Repeat)...)
			errs = append(errs, knownPlaceholders(path, device.Device)...)
		}
	}
	return errs
}

func (p *Profile) storageClasses() sets.Set[string] {
	classes := sets.New[string]()
	for _, object := range p.Objects {
		if object.GetKind() == "StorageClass" {
			classes.Insert(object.GetName())
		}
	}
	return classes
}

func validName(path *field.Path, name string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func required(path *field.Path, value string) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func positive(path *field.Path, n int) field.ErrorList {
	if n < 1 {
		return field.ErrorList{field.Invalid(path, n, "must be at least 1")}
	}
	return nil
}

func repeatable(path *field.Path, repeat int) field.ErrorList {
	if repeat < 0 {
		return field.ErrorList{field.Invalid(path.Child("repeat"), repeat, "must not be negative")}
	}
	return nil
}
