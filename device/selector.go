// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"container/list"
	"context"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Selectors is a cache of compiled CEL expressions and of their results, to be
// shared by the Problems of one scheduler, along with memory for their searches.
// It is bounded and safe for concurrent use.
type Selectors struct {
	size int

	mu       sync.Mutex
	programs map[programKey]*list.Element
	// recent has a *program per element, the one that was used last in front.
	recent *list.List
	// made counts the programs, wrapping around.
	made uint8

	// columns and spreads are those of all pools, by what they say.
	columns memo[sharedColumn, *column]
	spreads []*spread

	// searches are finished searches, for their memory to be used again.
	searches sync.Pool
}

type programKey struct {
	features   cel.Features
	derived    purpose
	expression string
}

// slots is how many programs a small table has room for.
const slots = 4

// purpose is what an expression is for.
type purpose uint8

const (
	// selects: the result is whether the device matches.
	selects purpose = iota
	// derives: the result is an attribute.
	derives
)

// program is one compiled expression. Its address is its identity.
type program struct {
	key programKey
	// slot spreads programs over small tables.
	slot     uint8
	compiled cel.CompilationResult
	reads    reads

	mu sync.Mutex
	// results are by what the expression reads of a device.
	results map[string]outcome
	// rows are those of all pools, by what they say.
	rows memo[string, *verdictRow]
}

// outcome is what an expression says about a device. An error concerns devices
// that look like that one only: for instance an attribute is missing.
type outcome struct {
	matches   bool
	attribute *resourceapi.DeviceAttribute
	err       error
}

// programResults is how many results a program remembers before it forgets all
// of them: more differing devices than most clusters have.
const programResults = 1 << 14

// NewSelectors makes a cache that keeps at most size expressions (at least one).
func NewSelectors(size int) *Selectors {
	return &Selectors{size: max(size, 1), programs: map[programKey]*list.Element{}, recent: list.New()}
}

// compile returns the program of the expression. One that does not compile is
// remembered too: its compiled.Error is set.
func (s *Selectors) compile(expression string, of purpose, f Features) *program {
	key := programKey{
		features:   cel.Features{EnableConsumableCapacity: f.ConsumableCapacity, EnableListTypeAttributes: f.ListTypeAttributes},
		derived:    of,
		expression: expression,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if element, ok := s.programs[key]; ok {
		s.recent.MoveToFront(element)
		return element.Value.(*program)
	}
	p := newProgram(key)
	p.slot = s.made % slots
	s.made++
	s.programs[key] = s.recent.PushFront(p)
	if s.recent.Len() > s.size {
		oldest := s.recent.Remove(s.recent.Back()).(*program)
		delete(s.programs, oldest.key)
	}
	return p
}

func newProgram(key programKey) *program {
	p := &program{key: key, results: map[string]outcome{}}
	p.compiled = cel.GetCompiler(key.features).CompileCELExpression(key.expression, cel.Options{
		DisableCostEstimation: true, DerivedAttribute: key.derived == derives,
	})
	if p.compiled.Error != nil {
		return p
	}
	checked, issues := p.compiled.Environment.Compile(key.expression)
	if issues != nil && issues.Err() != nil {
		p.reads = reads{everything: true}
		return p
	}
	p.reads = readsOf(checked)
	return p
}

// on says what the program says about a device.
func (p *program) on(driver string, d *resourceapi.Device) outcome {
	var memory [256]byte
	key, ok := p.reads.key(memory[:0], driver, d)
	if !ok {
		return p.evaluate(driver, d)
	}
	p.mu.Lock()
	found, known := p.results[string(key)]
	p.mu.Unlock()
	if known {
		return found
	}
	found = p.evaluate(driver, d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.results) >= programResults {
		clear(p.results)
	}
	p.results[string(key)] = found
	return found
}

func (p *program) evaluate(driver string, d *resourceapi.Device) (found outcome) {
	input := cel.Device{
		Driver:                   driver,
		AllowMultipleAllocations: d.AllowMultipleAllocations,
		Attributes:               d.Attributes,
		Capacity:                 d.Capacity,
	}
	if p.key.derived == derives {
		found.attribute, _, found.err = p.compiled.EvaluateDerivedAttribute(context.Background(), input)
	} else {
		found.matches, _, found.err = p.compiled.DeviceMatches(context.Background(), input)
	}
	if found.err != nil {
		found = outcome{err: cel.EnhanceRuntimeError(found.err)}
	}
	return found
}
