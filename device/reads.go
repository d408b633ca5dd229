// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// reads is what an expression looks at of a device. Two devices of one driver
// that look alike in that get the same result, whatever else they are.
type reads struct {
	// everything: nobody can tell what the expression reads.
	everything bool
	multi      bool
	attributes []part
	capacity   []part
}

// part is one attribute or capacity, all of one domain if it has no id, and all
// there are if it has no domain either.
type part struct{ domain, id string }

// readsOf walks an expression. What it does not recognise as a path into the
// device counts as reading all that is below.
func readsOf(checked *cel.Ast) reads {
	var r reads
	w := walk{reads: &r}
	w.visit(checked.NativeRep().Expr(), visibleNames{"device": {kind: theDevice}})
	order := func(a, b part) int { return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.id, b.id)) }
	for _, parts := range []*[]part{&r.attributes, &r.capacity} {
		slices.SortFunc(*parts, order)
		*parts = slices.Compact(*parts)
	}
	return r
}

// path is how far an expression leads into the device.
type path struct {
	kind pathKind
	part part
}

type pathKind uint8

const (
	// elsewhere is everything that is no path into the device.
	elsewhere pathKind = iota
	theDevice
	theDriver
	multiAllocations
	someAttributes
	someCapacity
)

// visibleNames says what names stand for. The inner ones hide the outer ones.
type visibleNames map[string]path

func (s visibleNames) with(name string, p path) visibleNames {
	inner := maps.Clone(s)
	inner[name] = p
	return inner
}

type walk struct{ reads *reads }

// resolve follows an expression that is a path into the device.
func (w *walk) resolve(e ast.Expr, s visibleNames) path {
	switch e.Kind() {
	case ast.IdentKind:
		return s[e.AsIdent()]
	case ast.SelectKind:
		return w.resolve(e.AsSelect().Operand(), s).step(e.AsSelect().FieldName())
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index {
			return path{}
		}
		if name, ok := text(call.Args()[1]); ok {
			if from := w.resolve(call.Args()[0], s); from.kind == someAttributes || from.kind == someCapacity {
				return from.step(name)
			}
		}
	}
	return path{}
}

// step is one field or key further.
func (p path) step(name string) path {
	switch {
	case p.kind == theDevice:
		return path{kind: map[string]pathKind{
			"driver": theDriver, "allowMultipleAllocations": multiAllocations,
			"attributes": someAttributes, "capacity": someCapacity,
		}[name]}
	case p.kind != someAttributes && p.kind != someCapacity, p.part.id != "", name == "":
		return path{}
	case p.part.domain == "":
		return path{kind: p.kind, part: part{domain: name}}
	default:
		return path{kind: p.kind, part: part{domain: p.part.domain, id: name}}
	}
}

func text(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// visit notes what the expression reads.
func (w *walk) visit(e ast.Expr, s visibleNames) {
	if p := w.resolve(e, s); p.kind != elsewhere {
		w.note(p)
		return
	}
	switch e.Kind() {
	case ast.IdentKind, ast.LiteralKind:
	case ast.SelectKind:
		w.visit(e.AsSelect().Operand(), s)
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() == operators.In {
			// "id" in device.attributes["domain"]
			if name, ok := text(call.Args()[0]); ok {
				if in := w.resolve(call.Args()[1], s); in.part.domain != "" && in.part.id == "" && in.step(name).kind != elsewhere {
					w.note(in.step(name))
					return
				}
			}
		}
		if call.IsMemberFunction() {
			w.visit(call.Target(), s)
		}
		for _, arg := range call.Args() {
			w.visit(arg, s)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			w.visit(element, s)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.visit(entry.AsMapEntry().Key(), s)
			w.visit(entry.AsMapEntry().Value(), s)
		}
	case ast.ComprehensionKind:
		w.comprehension(e.AsComprehension(), s)
	default:
		w.reads.everything = true
	}
}

func (w *walk) comprehension(c ast.ComprehensionExpr, s visibleNames) {
	w.visit(c.IterRange(), s)
	bound := path{}
	if c.LoopStep().Kind() == ast.IdentKind && c.LoopStep().AsIdent() == c.AccuVar() {
		// The variable keeps its first value: this is how cel.bind is written.
		bound = w.resolve(c.AccuInit(), s)
	}
	if bound.kind == elsewhere {
		w.visit(c.AccuInit(), s)
	}
	inner := s.with(c.AccuVar(), bound)
	w.visit(c.Result(), inner)
	if bound.kind != elsewhere {
		return
	}
	inner = inner.with(c.IterVar(), path{})
	if c.HasIterVar2() {
		inner = inner.with(c.IterVar2(), path{})
	}
	w.visit(c.LoopCondition(), inner)
	w.visit(c.LoopStep(), inner)
}

func (w *walk) note(p path) {
	switch p.kind {
	case theDevice:
		w.reads.everything = true
	case multiAllocations:
		w.reads.multi = true
	case someAttributes:
		w.reads.attributes = append(w.reads.attributes, p.part)
	case someCapacity:
		w.reads.capacity = append(w.reads.capacity, p.part)
	}
}

// key appends to b the driver and all that is read of the device. It reports
// false when a result for the device says nothing about others.
func (r *reads) key(b []byte, driver string, d *resourceapi.Device) ([]byte, bool) {
	if r.everything {
		return nil, false
	}
	b = appendText(b, driver)
	multi := byte(0)
	if r.multi && ptr.Deref(d.AllowMultipleAllocations, false) {
		multi = 1
	}
	b = append(b, multi)
	var names []resourceapi.QualifiedName
	for name := range d.Attributes {
		a := d.Attributes[name]
		if !wellFormed(a) {
			return nil, false
		}
		// A version that cannot be parsed fails every expression, so all count.
		if r.includes(r.attributes, driver, name) || a.VersionValue != nil || a.VersionValues != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendAttribute(appendText(b, string(name)), d.Attributes[name])
	}
	names = names[:0]
	for name := range d.Capacity {
		if r.includes(r.capacity, driver, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value := d.Capacity[name].Value
		b = appendText(appendText(b, string(name)), value.String())
	}
	return b, true
}

func (r *reads) includes(parts []part, driver string, name resourceapi.QualifiedName) bool {
	domain, id, qualified := strings.Cut(string(name), "/")
	if !qualified {
		domain, id = driver, string(name)
	}
	return slices.ContainsFunc(parts, func(p part) bool {
		return p.domain == "" || p.domain == domain && (p.id == "" || p.id == id)
	})
}

// appendText keeps two texts apart from one that reads the same.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendAttribute tells a list of one value from that value, and from one that has
// it twice: for an expression these differ.
func appendAttribute(b []byte, a resourceapi.DeviceAttribute) []byte {
	length := 0
	values := writtenValues(a)
	if listed(a) {
		length = len(values)
	}
	b = binary.AppendUvarint(b, uint64(length))
	for _, v := range values {
		b = appendValue(b, v)
	}
	return b
}

func appendValue(b []byte, v value) []byte {
	return appendText(binary.AppendVarint(append(b, byte(v.kind)), v.number), v.text)
}
