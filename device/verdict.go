// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import "sync/atomic"

// verdict is what a selector said about a device.
type verdict uint32

const (
	unknown verdict = iota
	rejected
	accepted
	failed
)

// verdictRow has one verdict per device of a pool, filled in when it is first
// asked for. Devices do not change within a Pool, so a verdict stays true. Two
// goroutines that ask at once find the same.
type verdictRow struct {
	program *program
	devices []atomic.Uint32
}

func (p *Pool) row(program *program) *verdictRow {
	if row := p.recent[program.slot].Load(); row != nil && row.program == program {
		return row
	}
	row, ok := p.verdicts.find(program)
	if !ok {
		row = &verdictRow{program: program, devices: make([]atomic.Uint32, len(p.devices))}
		if p.sole != "" && !program.reads.everything {
			// The node will look at every device anyway.
			for d := range p.devices {
				p.verdict(row, int32(d))
			}
			row = row.share()
		}
		row = p.verdicts.keep(program, row)
	}
	p.recent[program.slot].Store(row)
	return row
}

func (p *Pool) verdict(row *verdictRow, device int32) verdict {
	if known := verdict(row.devices[device].Load()); known != unknown {
		return known
	}
	found := rejected
	switch result := row.program.on(p.id.Driver, p.devices[device].api); {
	case result.err != nil:
		found = failed
	case result.matches:
		found = accepted
	}
	row.devices[device].Store(uint32(found))
	return found
}
