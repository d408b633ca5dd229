// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Write writes the long form of a rejection: its sentence, every fact below it,
// and then the same for each of Also. The text ends with a newline. It holds
// plain names that can be pasted into kubectl, and sizes as kubectl prints them.
//
// The error is the writer's.
func Write(w io.Writer, r *Rejection) error {
	var text strings.Builder
	for _, one := range r.All() {
		fmt.Fprintf(&text, "%s: %s\n", one.Code, one.Sentence())
		for _, line := range one.lines() {
			fmt.Fprintf(&text, "  %s\n", line)
		}
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("writing the reason %s: %w", r.Code, err)
	}
	return nil
}

// lines are the facts, one kind a line. A fact that is missing has no line.
func (r *Rejection) lines() []string {
	var lines []string
	add := func(label, text string) {
		if text != "" {
			lines = append(lines, label+text)
		}
	}
	f := &r.Facts
	add("", r.subject())
	add("requests: ", strings.Join(f.Requests, ", "))
	add("", r.amounts())
	if f.Devices != nil {
		lines = append(lines, f.Devices.lines(f.Attribute)...)
	} else if f.Attribute != "" {
		add("attribute: ", f.Attribute)
	}
	add("values: ", strings.Join(f.Values, ", "))
	if f.Object.Name != "" {
		add("object: ", strings.TrimSpace(f.Object.Kind+" "+f.Object.String()))
	}
	if f.Generation != 0 {
		add("generation: ", strconv.FormatInt(f.Generation, 10))
	}
	add("feature: ", f.Feature)
	add("field: ", f.Field)
	add("expression: ", f.Expression)
	add("detail: ", indent(f.Detail))
	if f.Steps != 0 {
		add("steps: ", strconv.FormatInt(f.Steps, 10))
	}
	return lines
}

// subject says what was refused and where, in the order from large to small.
func (r *Rejection) subject() string {
	var parts []string
	add := func(label, text string) {
		if text != "" {
			parts = append(parts, label+text)
		}
	}
	add("node ", r.Node)
	if r.Claim.Name != "" {
		add("claim ", r.Claim.String())
	}
	add("request ", r.Request)
	add("volume ", r.Volume)
	add("class ", r.Facts.Class)
	return strings.Join(parts, " · ")
}

func (r *Rejection) amounts() string {
	var parts []string
	if r.Code == PoolIncomplete && r.Facts.Wanted != nil && r.Facts.Had != nil {
		return r.amount(r.Facts.Wanted) + " slices announced · " + r.amount(r.Facts.Had) + " seen"
	}
	if q := r.Facts.Wanted; q != nil {
		parts = append(parts, "wanted "+r.amount(q))
	}
	if q := r.Facts.Had; q != nil {
		parts = append(parts, "had "+r.amount(q))
	}
	if q := r.Facts.Limit; q != nil {
		parts = append(parts, "at most "+r.amount(q)+" per volume")
	}
	return strings.Join(parts, " · ")
}

// amount prints storage as kubectl prints it and everything else, which are
// counts, as plain numbers.
func (r *Rejection) amount(q *resource.Quantity) string {
	if r.Claim.Kind == "PersistentVolumeClaim" {
		return q.String()
	}
	return strconv.FormatInt(q.Value(), 10)
}

func (d *Devices) lines(attribute string) []string {
	short := d.names()
	lines := []string{fmt.Sprintf("%d in class · %d match · %d free", d.InClass, d.Match, d.Free)}
	if len(d.Groups) > 0 {
		groups := make([]string, len(d.Groups))
		for i, g := range d.Groups {
			groups[i] = fmt.Sprintf("%s %d free", g.Value, g.Free)
		}
		lines = append(lines, fmt.Sprintf("by %s: %s", attribute, strings.Join(groups, ", ")))
	} else if attribute != "" {
		lines = append(lines, fmt.Sprintf("by %s: no free device has it", attribute))
	}
	if d.Most > 0 {
		lines = append(lines, fmt.Sprintf("at most %d with one value, held or not", d.Most))
	}
	if len(d.Counters) > 0 {
		counters := make([]string, len(d.Counters))
		for i, c := range d.Counters {
			counters[i] = fmt.Sprintf("%s %s of %s", c.Name, c.Left.String(), c.Total.String())
		}
		lines = append(lines, "counters left: "+strings.Join(counters, ", "))
	}
	if len(d.Held) > 0 {
		lines = append(lines, "held: "+strings.Join(holders(d.Held, short), ", "))
	}
	return append(lines, refusals(d.Refused, short)...)
}

// names returns how to print a device: by its name alone while all of them are
// in one pool.
func (d *Devices) names() func(Device) string {
	var first Device
	for _, list := range [][]Device{devicesHeld(d.Held), devicesRefused(d.Refused)} {
		for _, device := range list {
			if first == (Device{}) {
				first = device
			}
			if device.Driver != first.Driver || device.Pool != first.Pool {
				return Device.String
			}
		}
	}
	return func(device Device) string { return device.Name }
}

func devicesHeld(held []Held) []Device {
	devices := make([]Device, len(held))
	for i := range held {
		devices[i] = held[i].Device
	}
	return devices
}

func devicesRefused(refused []Refused) []Device {
	devices := make([]Device, len(refused))
	for i := range refused {
		devices[i] = refused[i].Device
	}
	return devices
}

// holders joins neighbours that are held by the same claim: "gpu-5 gpu-6 ml/a".
func holders(held []Held, name func(Device) string) []string {
	var texts []string
	for i := 0; i < len(held); {
		claim := held[i].Claim
		text := ""
		pods := held[i].Pods
		for ; i < len(held) && held[i].Claim == claim; i++ {
			text += name(held[i].Device) + " "
		}
		text += claim.String()
		if len(pods) > 0 {
			text += " (" + consumers(pods) + ")"
		}
		texts = append(texts, text)
	}
	return texts
}

func consumers(pods []Ref) string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		kind := "pod"
		if pod.Kind != "" && pod.Kind != "Pod" {
			kind = pod.Kind
		}
		names[i] = kind + " " + pod.String()
	}
	return strings.Join(names, ", ")
}

// refusals has a line for each reason, with all devices that share it.
func refusals(refused []Refused, name func(Device) string) []string {
	var texts []string
	for _, line := range refusalsByReason(refused, name) {
		texts = append(texts, "refused: "+indent(line))
	}
	return texts
}

// Refusals says why devices may not be used, once for each reason and in the
// order in which they come: "gpu-2: taint sick:NoSchedule", "8 devices: no attribute
// model (gpu-0 … gpu-7)".
func (d *Devices) Refusals() []string { return refusalsByReason(d.Refused, d.names()) }

func refusalsByReason(refused []Refused, name func(Device) string) []string {
	var reasons []string
	devices := map[string][]string{}
	for i := range refused {
		why := refused[i].Why
		if _, known := devices[why]; !known {
			reasons = append(reasons, why)
		}
		devices[why] = append(devices[why], name(refused[i].Device))
	}
	for i, why := range reasons {
		of := devices[why]
		switch n := len(of); {
		case n == 1:
			reasons[i] = of[0] + ": " + why
		case n <= mostNamed:
			reasons[i] = fmt.Sprintf("%d devices: %s (%s)", n, why, strings.Join(of, " "))
		default:
			reasons[i] = fmt.Sprintf("%d devices: %s (%s … %s)", n, why, of[0], of[n-1])
		}
	}
	return reasons
}

// mostNamed is how many devices that share a reason are all named.
const mostNamed = 4

// indent keeps the further lines of a text of somebody else's below its first.
func indent(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ")
}
