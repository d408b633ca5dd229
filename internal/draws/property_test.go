// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package draws

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/property"
	"github.com/berth-scheduler/berth/volume"
)

func TestMain(m *testing.M) { property.Main(m) }

// pool is the truth behind the reports: a driver with so much storage, and the
// claims that it makes volumes for.
type pool struct {
	total, other int
	claims       []*modelClaim
	driver       driver
	object       *volume.Capacity
	reported     int
}

type modelClaim struct {
	name                          string
	size                          int
	reserved, placed, made, bound bool
}

func (p *pool) free() int {
	free := p.total - p.other
	for _, c := range p.claims {
		if c.made {
			free -= c.size
		}
	}
	return free
}

// promised is what claims will take that have nothing yet.
func (p *pool) promised() int {
	sum := 0
	for _, c := range p.claims {
		if (c.reserved || c.placed) && !c.made {
			sum += c.size
		}
	}
	return sum
}

// write writes the object, as drivers do: only when the number has changed.
func (p *pool) write() {
	if free := p.free(); p.object == nil || free != p.reported {
		p.reported = free
		p.object = p.driver.reports(fmt.Sprint(free))
	}
}

// report writes the object and tells the Book of it.
func (p *pool) report(b *Book) {
	p.write()
	b.Reported(p.object)
}

// pick draws one of the claims that the condition holds for, nil if there is none.
func (p *pool) pick(t *rapid.T, holds func(*modelClaim) bool) *modelClaim {
	fitting := slices.DeleteFunc(slices.Clone(p.claims), func(c *modelClaim) bool { return !holds(c) })
	if len(fitting) == 0 {
		t.Skip("no such claim")
	}
	return rapid.SampledFrom(fitting).Draw(t, "claim")
}

// TestCapacityIsNeverOverdrawn: whatever is reserved, undone, provisioned, refused
// and reported in whatever order, and whoever else frees storage meanwhile, the
// driver can make every volume that was promised. Settling is the one thing that
// rests on time: the driver must have reported until then.
func TestCapacityIsNeverOverdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := clocktesting.NewFakeClock(time.Unix(0, 0))
		b := New(clock)
		p := &pool{total: rapid.IntRange(0, 20).Draw(t, "total")}
		p.other = rapid.IntRange(0, p.total).Draw(t, "other")
		p.report(b)
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				c := &modelClaim{name: fmt.Sprintf("c%d", len(p.claims)), size: rapid.IntRange(1, 6).Draw(t, "size")}
				room := p.free() - p.promised()
				err := b.Reserve(types.UID("pod-"+c.name), p.object, draw(c.name, fmt.Sprint(c.size)))
				if err == nil {
					c.reserved = true
					p.claims = append(p.claims, c)
				}
				if err == nil && c.size > room {
					t.Fatalf("%d were promised of %d", c.size, room)
				}
			},
			"undo": func(t *rapid.T) {
				c := p.pick(t, func(c *modelClaim) bool { return c.reserved && !c.bound })
				b.Undo(types.UID("pod-"+c.name), types.UID(c.name))
				c.reserved = false
			},
			"place": func(t *rapid.T) {
				c := p.pick(t, func(c *modelClaim) bool { return c.reserved && !c.placed && !c.made })
				b.Placed(types.UID(c.name))
				c.placed = true
			},
			"make": func(t *rapid.T) {
				c := p.pick(t, func(c *modelClaim) bool { return c.placed && !c.made })
				if c.size > p.free() {
					t.Fatalf("claim %s of %d was promised storage, %d are free", c.name, c.size, p.free())
				}
				c.made = true
			},
			"refuse": func(t *rapid.T) {
				c := p.pick(t, func(c *modelClaim) bool { return c.placed && !c.bound })
				c.made, c.placed = false, false
				b.Unplaced(types.UID(c.name))
			},
			"bind": func(t *rapid.T) {
				c := p.pick(t, func(c *modelClaim) bool { return c.placed && c.made && !c.bound })
				// A report from before that comes after it would pass for news.
				b.Reported(p.object)
				b.Bound(types.UID(c.name))
				c.bound = true
			},
			"report": func(*rapid.T) { p.report(b) },
			// The event comes late.
			"write": func(*rapid.T) { p.write() },
			"settle": func(*rapid.T) {
				p.report(b)
				clock.Step(DefaultSettle)
			},
			"free": func(t *rapid.T) {
				p.other -= min(p.other, rapid.IntRange(1, 4).Draw(t, "size"))
			},
		})
		// Nothing is held for ever: when all is done and reported, all is offered.
		for _, c := range p.claims {
			b.Undo(types.UID("pod-"+c.name), types.UID(c.name))
			if !c.bound {
				c.placed, c.made = false, false
				b.Unplaced(types.UID(c.name))
			}
		}
		p.report(b)
		clock.Step(DefaultSettle)
		if left := b.Drawn(p.object); len(left) != 0 {
			t.Fatalf("%v are drawn for ever", left)
		}
	})
}
