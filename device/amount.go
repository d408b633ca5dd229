// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"math/big"

	"k8s.io/apimachinery/pkg/api/resource"
)

// largest is the largest amount that is counted with: sums of as many amounts as
// a pod can ask for stay far from the end of an int64.
const largest = int64(1) << 53

// unit is what amounts of one kind are counted in: numerator / denominator of
// the unit of the quantity. One of the two is 1.
type unit struct{ numerator, denominator int64 }

// units are those in use, the finest first. A quantity has no finer part than a
// nano.
var units = [...]unit{{1, 1e9}, {1, 1e6}, {1, 1e3}, {1, 1}, {1 << 10, 1}, {1 << 20, 1}}

var one = unit{1, 1}

// in returns a quantity as a number of units. It reports false when that is not
// a whole number, or too large to count with.
func (u unit) in(q resource.Quantity) (int64, bool) {
	n, ok := u.exactly(q)
	return n, ok && -largest <= n && n <= largest
}

// exactly is in without a limit but that of the type.
func (u unit) exactly(q resource.Quantity) (int64, bool) {
	if u == one {
		if n, ok := q.AsInt64(); ok {
			return n, true
		}
	}
	n, rest := u.divide(q)
	return n.Int64(), rest.Sign() == 0 && n.IsInt64()
}

// atLeast returns the smallest number of units that is not less than a quantity.
func (u unit) atLeast(q resource.Quantity) int64 {
	n, rest := u.divide(q)
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	if n.Cmp(big.NewInt(largest)) > 0 {
		return largest
	}
	return n.Int64()
}

func (u unit) divide(q resource.Quantity) (n, rest *big.Int) {
	dec := q.AsDec()
	n = new(big.Int).Mul(dec.UnscaledBig(), big.NewInt(u.denominator))
	d := big.NewInt(u.numerator)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(dec.Scale(), -dec.Scale()))), nil)
	if dec.Scale() >= 0 {
		d.Mul(d, power)
	} else {
		n.Mul(n, power)
	}
	return n.QuoRem(n, d, new(big.Int))
}

// of is the quantity that so many units are.
func (u unit) of(n int64, format resource.Format) resource.Quantity {
	if n%u.denominator == 0 {
		return *resource.NewQuantity(n/u.denominator*u.numerator, format)
	}
	scales := map[int64]resource.Scale{1e3: resource.Milli, 1e6: resource.Micro, 1e9: resource.Nano}
	return *resource.NewScaledQuantity(n, scales[u.denominator])
}

// finest returns the finest unit that a quantity can be counted in, and how many
// of it that is.
func finest(q resource.Quantity) (unit, int64, bool) {
	for _, u := range units {
		if n, ok := u.in(q); ok {
			return u, n, true
		}
	}
	return unit{}, 0, false
}

// common returns the coarsest unit down from one that all quantities are whole
// numbers of.
func common(quantities []resource.Quantity) (unit, bool) {
next:
	for i := 3; i >= 0; i-- {
		for _, q := range quantities {
			if _, ok := units[i].in(q); !ok {
				continue next
			}
		}
		return units[i], true
	}
	return unit{}, false
}
