// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"math"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/device/internal/assign"
	"github.com/berth-scheduler/berth/reason"
)

// privateSelectors is how many expressions the cache of one Problem has room for.
const privateSelectors = 64

// Compile prepares all claims of one pod. Claims that are allocated already only
// narrow down the nodes. A claim that is given twice counts once. classes returns
// the DeviceClass of that name, or nil if there is none.
//
// Everything that can be decided without a node is decided here; a Rejection
// holds for every node, with one more in Also for each further thing that is
// wrong. The claims and classes are kept and must not be changed afterwards.
func Compile(claims []*resourceapi.ResourceClaim, classes func(name string) *resourceapi.DeviceClass, o Options) (*Problem, *reason.Rejection) {
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.Selectors == nil {
		o.Selectors = NewSelectors(privateSelectors)
	}
	if o.TopologyAttributes == nil {
		o.TopologyAttributes = defaultTopology[:]
	}
	c := compiler{problem: &Problem{options: o, missing: o.Features.missing()}, classes: classes}
	seen := map[reason.Ref]bool{}
	for _, claim := range claims {
		ref := claimRef(claim)
		if seen[ref] {
			continue
		}
		seen[ref] = true
		if claim.Status.Allocation != nil {
			c.allocated(claim)
		} else {
			c.open(claim)
		}
	}
	if c.refused != nil {
		return nil, c.refused
	}
	return c.problem, nil
}

// compiler collects what is wrong while it goes through the claims.
type compiler struct {
	problem *Problem
	classes func(string) *resourceapi.DeviceClass
	refused *reason.Rejection
}

func (c *compiler) refuse(r *reason.Rejection) {
	if c.refused == nil {
		c.refused = r
	} else {
		c.refused.Also = append(c.refused.Also, r)
	}
}

func (c *compiler) allocated(claim *resourceapi.ResourceClaim) {
	done := allocatedClaim{ref: claimRef(claim), skips: SkipsOperations(claim.Status.Allocation)}
	if selector := claim.Status.Allocation.NodeSelector; selector != nil {
		parsed, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			c.refuse(&reason.Rejection{Code: reason.ClaimUnsupported, Claim: done.ref, Facts: reason.Facts{
				Feature: "an allocation for nodes that cannot be told", Field: "status.allocation.nodeSelector", Detail: err.Error(),
			}})
			return
		}
		done.selector = parsed
		for _, term := range selector.NodeSelectorTerms {
			if required := slices.Concat(term.MatchFields, term.MatchExpressions); len(required) > 0 {
				done.where = required[0]
				break
			}
		}
	}
	c.problem.allocated = append(c.problem.allocated, done)
}

func (c *compiler) open(claim *resourceapi.ResourceClaim) {
	p := c.problem
	index, first := len(p.open), len(p.requests)
	p.open = append(p.open, claim)
	c.supported(claim)

	total := int64(0)
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		wishes := wishes(r, fmt.Sprintf("spec.devices.requests[%d]", i))
		if len(wishes) == 0 {
			continue
		}
		fewest := least(wishes)
		if fewest > resourceapi.AllocationResultsMaxSize-total {
			wanted := fewest
			if fewest <= math.MaxInt64-total {
				wanted += total
			}
			c.refuse(tooLarge(claimRef(claim), r.Name, wanted))
			return
		}
		total += fewest
		compiled := request{claim: index, name: r.Name}
		for _, w := range wishes {
			compiled.choices = append(compiled.choices, c.choice(claim, w))
		}
		p.requests = append(p.requests, compiled)
	}
	c.constraints(claim, index, first)
}

func tooLarge(claim reason.Ref, request string, wanted int64) *reason.Rejection {
	return &reason.Rejection{Code: reason.ClaimTooLarge, Claim: claim, Request: request, Facts: reason.Facts{
		Wanted: resource.NewQuantity(wanted, resource.DecimalSI),
		Had:    resource.NewQuantity(resourceapi.AllocationResultsMaxSize, resource.DecimalSI),
	}}
}

func (c *compiler) choice(claim *resourceapi.ResourceClaim, w wish) choice {
	compiled := choice{wish: w}
	if w.className == "" {
		return compiled // refused already
	}
	compiled.class = c.classes(w.className)
	if compiled.class == nil {
		c.refuse(&reason.Rejection{Code: reason.DeviceClassNotFound, Claim: claimRef(claim), Request: w.name, Facts: reason.Facts{
			Class: w.className, Object: reason.Ref{Kind: "DeviceClass", Name: w.className},
		}})
		return compiled
	}
	compiled.sieve = c.sieve(claim, &compiled)
	return compiled
}

// sieve compiles the selectors of a choice and of its class.
func (c *compiler) sieve(claim *resourceapi.ResourceClaim, of *choice) int {
	p := c.problem
	s := sieve{tolerations: of.tolerations, access: of.access, demand: newDemand(of.capacity, p.options.Features)}
	compile := func(selectors []resourceapi.DeviceSelector, object reason.Ref, path string) []*program {
		var programs []*program
		for i, selector := range selectors {
			if selector.CEL == nil {
				c.refuse(&reason.Rejection{
					Code: reason.ClaimUnsupported, Claim: claimRef(claim), Request: of.name,
					Facts: reason.Facts{Feature: "a selector of an unknown kind", Field: fmt.Sprintf("%s[%d]", path, i), Class: of.className, Object: object},
				})
				continue
			}
			program := p.options.Selectors.compile(selector.CEL.Expression, selects, p.options.Features)
			if err := program.compiled.Error; err != nil {
				c.refuse(&reason.Rejection{Code: reason.SelectorInvalid, Claim: claimRef(claim), Request: of.name, Facts: reason.Facts{
					Class: of.className, Object: object, Expression: selector.CEL.Expression,
					Field: fmt.Sprintf("%s[%d].cel.expression", path, i), Detail: err.Error(),
				}})
				continue
			}
			programs = append(programs, program)
		}
		return programs
	}
	s.class = compile(of.class.Spec.Selectors, reason.Ref{Kind: "DeviceClass", Name: of.className}, "spec.selectors")
	s.own = compile(of.selectors, claimRef(claim), of.path+".selectors")
	for i := range p.sieves {
		if other := &p.sieves[i]; slices.Equal(other.class, s.class) && slices.Equal(other.own, s.own) &&
			other.access == s.access && other.demand.key == s.demand.key &&
			equality.Semantic.DeepEqual(other.tolerations, s.tolerations) {
			return i
		}
	}
	p.sieves = append(p.sieves, s)
	return len(p.sieves) - 1
}

// constraints compiles those of a claim, whose requests are those from first on.
func (c *compiler) constraints(claim *resourceapi.ResourceClaim, index, first int) {
	p := c.problem
	for i := range claim.Spec.Devices.Constraints {
		api := &claim.Spec.Devices.Constraints[i]
		compiled := constraint{claim: index}
		switch {
		case api.MatchAttribute != nil:
			compiled.kind, compiled.attribute = assign.Match, *api.MatchAttribute
		case api.DistinctAttribute != nil:
			compiled.kind, compiled.attribute = assign.Distinct, *api.DistinctAttribute
		default:
			continue
		}
		for r := first; r < len(p.requests); r++ {
			for k := range p.requests[r].choices {
				of := &p.requests[r].choices[k]
				if names(api.Requests, p.requests[r].name, of.name) {
					column := c.column(claim, of, compiled.attribute)
					compiled.members = append(compiled.members, member{request: r, choice: k, column: column})
				}
			}
		}
		if len(compiled.members) > 0 {
			p.constraints = append(p.constraints, compiled)
			p.mixed = p.mixed || slices.ContainsFunc(compiled.members, func(m member) bool { return m.column != compiled.members[0].column })
		}
	}
}

// names says whether a list of requests is about one: it is in the list, itself or
// as a whole, or the list is empty, which means all.
func names(list []string, request, choice string) bool {
	return len(list) == 0 || slices.Contains(list, request) || slices.Contains(list, choice)
}

// column is where a constraint finds the values of a choice: what the choice
// derives goes before what drivers publish.
func (c *compiler) column(claim *resourceapi.ResourceClaim, of *choice, attribute resourceapi.FullyQualifiedName) int {
	p := c.problem
	key := columnKey{attribute: attribute}
	if p.options.Features.ListTypeAttributes {
		key.lists = listsToo
	}
	for i := range of.derived {
		if of.derived[i].Name != attribute {
			continue
		}
		key.program = p.options.Selectors.compile(of.derived[i].Expression, derives, p.options.Features)
		if err := key.program.compiled.Error; err != nil {
			c.refuse(&reason.Rejection{Code: reason.AttributeInvalid, Claim: claimRef(claim), Request: of.name, Facts: reason.Facts{
				Attribute: string(attribute), Expression: of.derived[i].Expression, Detail: err.Error(),
				Field: strings.TrimPrefix(fmt.Sprintf("%s.derivedAttributes[%d].expression", of.path, i), "."),
			}})
		}
	}
	index := slices.Index(p.columns, key)
	if index < 0 {
		index = len(p.columns)
		p.columns = append(p.columns, key)
	}
	if key.program != nil && !slices.Contains(of.columns, index) {
		of.columns = append(of.columns, index)
	}
	return index
}
