// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/reason"
)

// Trouble says why the node cannot use the pool, though the pool has, or may soon
// have, something for it: the code is [reason.PoolIncomplete] or
// [reason.PoolInvalid]. It returns nil if there is no such reason.
func (p *Pool) Trouble(node *v1.Node, f Features) *reason.Rejection {
	usable := p.usable(f)
	if usable && !p.faulty || !usable && !p.concerns(node) {
		return nil
	}
	b := blocked{fault: p.faultWith(f)}
	if usable {
		if b.fault = p.visible(node, visible{}).fault; b.fault == "" {
			return nil
		}
	}
	r := &reason.Rejection{Code: b.code(), Node: node.Name}
	p.explain(b.fault, &r.Facts)
	return r
}
