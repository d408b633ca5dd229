// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/berth-scheduler/berth/reason"
)

// WriteText prints the report for people: the answer first, then counts, then
// detail. No line is wider than width columns, as far as names allow. The error
// is the writer's.
func (r *Report) WriteText(w io.Writer, width int) error {
	p := &page{width: width}
	p.paragraph("", r.Verdict)
	if r.Nearest != nil {
		p.paragraph("", fmt.Sprintf("Nearest: node %s, %s.", r.Nearest.Node, r.Nearest.Text))
	}
	if r.State != Scheduled && r.State != Ended {
		r.writeReasons(p)
	}
	if len(r.Claims)+len(r.Volumes) > 0 {
		p.blank()
	}
	for _, claim := range r.Claims {
		r.writeClaim(p, claim)
	}
	for _, volume := range r.Volumes {
		r.writeVolume(p, volume)
	}
	if r.Preemption != nil {
		p.blank()
		p.paragraph("", "Would preemption help? "+preemption(r.Preemption))
	}
	if len(r.WaitsFor) > 0 {
		if r.Preemption == nil {
			p.blank()
		}
		// Any of the changes may do on some node; a pod as a whole needs all.
		between := "; or "
		if r.Refusal != nil {
			between = "; and "
		}
		p.paragraph("", "Waits for: "+strings.Join(r.WaitsFor, between)+".")
	}
	if len(r.Notes) > 0 {
		p.blank()
	}
	for _, note := range r.Notes {
		p.paragraph("", "Note: "+note)
	}
	_, err := io.WriteString(w, p.String())
	return err
}

// writeReasons prints how many nodes gave which answer. Few nodes are named.
func (r *Report) writeReasons(p *page) {
	if len(r.Reasons) == 0 {
		return
	}
	p.blank()
	p.line("NODES  REASON")
	for _, one := range r.Reasons {
		text := one.About
		if one.Text != "" {
			text += ": " + one.Text
		}
		if len(one.Nodes) <= 3 {
			text += " (" + strings.Join(one.Nodes, ", ") + ")"
		}
		p.paragraph(fmt.Sprintf("%5d  ", len(one.Nodes)), text)
	}
}

func (r *Report) writeClaim(p *page, claim Claim) {
	head := "CLAIM " + claim.Claim.Name
	switch {
	case claim.TemplateMissing:
		head = fmt.Sprintf("CLAIM %q   ResourceClaimTemplate %s/%s does not exist", claim.Name, claim.Claim.Namespace, claim.Template)
	case claim.Missing && claim.Template != "":
		head = fmt.Sprintf("CLAIM %q   not created yet, from ResourceClaimTemplate %s/%s", claim.Name, claim.Claim.Namespace, claim.Template)
	case claim.Missing:
		head += "   does not exist"
	}
	if len(claim.Requests) == 0 {
		p.paragraph("", head)
	}
	for _, request := range claim.Requests {
		p.paragraph("", fmt.Sprintf("%s   REQUEST %s   %s", head, request.Name, request.Wants))
		for _, selector := range request.Selectors {
			p.paragraph("  ", "selector: "+selector)
		}
		if request.Found != nil && request.Found.Facts.Devices != nil {
			r.writeFound(p, request)
		}
	}
	for _, one := range claim.Extended {
		p.paragraph("  ", one.text())
	}
	if len(claim.Devices) > 0 {
		var devices []reason.Device
		for _, one := range claim.Devices {
			devices = append(devices, one.Device)
		}
		text := "has " + deviceNames(devices)
		if claim.Devices[0].Pool != r.Node {
			text += " of pool " + claim.Devices[0].Pool
		}
		if len(claim.SharedWith) > 0 {
			text += ", shared with " + some(refs(claim.SharedWith), 3)
		}
		p.paragraph("  ", text)
	}
}

// mostLines is how many holders, and reasons for a refusal, have a line.
const mostLines = 6

func (r *Report) writeFound(p *page, request Request) {
	f := request.Found.Facts
	d := f.Devices
	parts := []string{fmt.Sprintf("%d in class", d.InClass), fmt.Sprintf("%d match", d.Match), fmt.Sprintf("%d free", d.Free)}
	if len(d.Groups) > 0 {
		var groups []string
		for _, g := range d.Groups {
			groups = append(groups, fmt.Sprintf("%s %d free", g.Value, g.Free))
		}
		_, attribute, qualified := strings.Cut(f.Attribute, "/")
		if !qualified {
			attribute = f.Attribute
		}
		parts = append(parts, "by "+attribute+": "+some(groups, 6))
	}
	lead := fmt.Sprintf("  on %s:  ", request.Found.Node)
	p.paragraph(lead, strings.Join(parts, " · "))
	rest := strings.Repeat(" ", len(lead))
	var held []string
	for _, holder := range request.Holders {
		held = append(held, deviceNames(holder.Devices)+" by "+r.holder(holder))
	}
	writeEach(p, rest+"held: ", held)
	writeEach(p, rest+"refused: ", d.Refusals())
}

// writeEach writes a line for each text, and counts those for which there is no
// room.
func writeEach(p *page, lead string, texts []string) {
	for i, text := range texts {
		if i == mostLines {
			p.paragraph(lead, fmt.Sprintf("%d more", len(texts)-i))
			return
		}
		p.paragraph(lead, text)
	}
}

func (r *Report) writeVolume(p *page, volume Volume) {
	var of []string
	if volume.Missing {
		of = append(of, "does not exist")
	}
	if volume.Class != "" {
		of = append(of, "class "+volume.Class)
	}
	if volume.Binding != "" {
		of = append(of, volume.Binding)
	}
	if volume.Size != nil {
		of = append(of, volume.Size.String())
	}
	p.paragraph("", strings.TrimRight(fmt.Sprintf("VOLUME %s   claim %s   %s", volume.Name, volume.Claim, strings.Join(of, ", ")), " "))
	if b := volume.Bound; b != nil {
		text := fmt.Sprintf("bound to %s (%s)", b.Name, b.Size.String())
		if b.ProvisionedBy != "" {
			text = fmt.Sprintf("bound to %s (%s, provisioned by %s)", b.Name, b.Size.String(), b.ProvisionedBy)
		}
		p.paragraph("  ", text)
	}
	if volume.Fits != nil {
		text := fmt.Sprintf("has a place on %d of %s", *volume.Fits, count(len(r.Nodes), "node"))
		switch {
		case volume.Most == nil:
		case volume.Most.PerVolume:
			text += fmt.Sprintf("; at most %s per volume on %s", volume.Most.Size.String(), volume.Most.Node)
		case *volume.Fits > 0:
			text += fmt.Sprintf("; the most elsewhere is %s on %s", volume.Most.Size.String(), volume.Most.Node)
		default:
			text += fmt.Sprintf("; the most is %s on %s", volume.Most.Size.String(), volume.Most.Node)
		}
		p.paragraph("  ", text)
	}
}

func deviceNames(devices []reason.Device) string {
	var names []string
	for _, device := range devices {
		names = append(names, device.Name)
	}
	return strings.Join(names, " ")
}

func refs(of []reason.Ref) []string {
	var names []string
	for _, ref := range of {
		names = append(names, ref.String())
	}
	return names
}
