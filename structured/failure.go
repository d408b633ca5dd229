// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package structured

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/reason"
)

// failure is an error in the words of upstream. It wraps the Rejection that it was
// made from, if there is one, and ErrFailedAllocationOnNode if it concerns one node.
type failure struct {
	text   string
	causes []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.causes }

// onNode makes the error of one node. r may be nil.
func onNode(r *reason.Rejection, format string, args ...any) error {
	f := &failure{text: fmt.Sprintf(format, args...), causes: []error{ErrFailedAllocationOnNode}}
	if r != nil {
		f.causes = append(f.causes, r)
	}
	return f
}

// invalid is the error for claims that were not compiled.
func (q *question) invalid(r *reason.Rejection) error {
	f := &failure{causes: []error{r}}
	switch r.Code {
	case reason.SelectorInvalid:
		f.text = fmt.Sprintf("%s: CEL compile error: %s", q.selector(r), r.Facts.Detail)
	case reason.AttributeInvalid:
		f.text = fmt.Sprintf("compile derived attribute %s failed: %s", r.Facts.Attribute, r.Facts.Detail)
	default:
		f.text = fmt.Sprintf("claim %s: %s", r.Claim, r.Error())
	}
	return f
}

// selector names a selector that does not compile: the first one of the class or
// claim that is written like that.
func (q *question) selector(r *reason.Rejection) string {
	with := func(s resourceapi.DeviceSelector) bool { return s.CEL.Expression == r.Facts.Expression }
	if object := r.Facts.Object; object.Kind == "DeviceClass" {
		return fmt.Sprintf("class %s: selector #%d", object.Name, slices.IndexFunc(q.class(object.Name).Spec.Selectors, with))
	}
	for _, claim := range q.claims {
		for i := range claim.Spec.Devices.Requests {
			for _, w := range wishes(claim, &claim.Spec.Devices.Requests[i]) {
				if i := slices.IndexFunc(w.Selectors, with); i >= 0 {
					return fmt.Sprintf("claim %s: selector #%d", nameOf(claim), i)
				}
			}
		}
	}
	return fmt.Sprintf("claim %s: selector", r.Claim)
}
