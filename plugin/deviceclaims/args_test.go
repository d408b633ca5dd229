// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/device"
)

// inTreeArgs is like the arguments of the in-tree plugin as the scheduler decodes
// them: fields without tags.
type inTreeArgs struct {
	metav1.TypeMeta
	FilterTimeout  *metav1.Duration
	BindingTimeout *metav1.Duration
	Unknown        *string
}

func (a *inTreeArgs) DeepCopyObject() runtime.Object { return a }

func raw(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }

func TestArgs(t *testing.T) {
	unknown := "x"
	for name, test := range map[string]struct {
		args    runtime.Object
		budget  int64         // 0: the default
		timeout time.Duration // 0: the default
		err     string
	}{
		"none":    {args: nil},
		"empty":   {args: &runtime.Unknown{}},
		"JSON":    {args: raw(`{"stepBudget":7,"bindingTimeout":"5s"}`), budget: 7, timeout: 5 * time.Second},
		"YAML":    {args: raw("stepBudget: 8\n"), budget: 8},
		"version": {args: raw(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"DeviceClaimsArgs"}`)},
		"in-tree YAML": {
			args:    raw("kind: DynamicResourcesArgs\nfilterTimeout: 10s\nbindingTimeout: 1m\n"),
			timeout: time.Minute,
		},
		"in-tree object": {
			args:    &inTreeArgs{FilterTimeout: &metav1.Duration{}, BindingTimeout: &metav1.Duration{Duration: time.Minute}},
			timeout: time.Minute,
		},
		"in-tree object without values": {args: &inTreeArgs{}},

		"strategy": {args: raw(`{"strategy":"InOrder","topologyAttributes":["example.com/rack","resource.kubernetes.io/numaNode"]}`)},

		"unknown strategy":      {args: raw(`{"strategy":"packed"}`), err: `strategy: "packed" is neither Packed nor InOrder`},
		"attribute, no domain":  {args: raw(`{"topologyAttributes":["numaNode"]}`), err: `topologyAttributes[0]: "numaNode" has no domain`},
		"attribute, bad name":   {args: raw(`{"topologyAttributes":["a/b","example.com/x-y"]}`), err: `topologyAttributes[1]: "example.com/x-y": `},
		"attribute twice":       {args: raw(`{"topologyAttributes":["a.b/c","a.b/c"]}`), err: `topologyAttributes[1]: "a.b/c" is there twice`},
		"unknown field":         {args: raw(`{"stepBudge":7}`), err: `unknown field "stepBudge"`},
		"unknown field, object": {args: &inTreeArgs{Unknown: &unknown}, err: `unknown field "Unknown"`},
		"field twice":           {args: raw("stepBudget: 7\nstepBudget: 8\n"), err: `"stepBudget" already set`},
		"wrong type":            {args: raw(`{"stepBudget":"many"}`), err: "stepBudget"},
		"no object":             {args: raw(`[]`), err: "read arguments of DeviceClaims"},
		"unknown version":       {args: raw(`{"apiVersion":"kubescheduler.config.k8s.io/v2"}`), err: `apiVersion: "kubescheduler.config.k8s.io/v2" is not`},
		"unknown kind":          {args: raw(`{"kind":"VolumeBindingArgs"}`), err: `kind: "VolumeBindingArgs" is not DeviceClaimsArgs`},
		"no budget":             {args: raw(`{"stepBudget":0}`), err: "stepBudget: 0 is not positive"},
		"no time":               {args: raw(`{"bindingTimeout":"500ms"}`), err: "bindingTimeout: 500ms is less than a second"},
		"negative time":         {args: raw(`{"filterTimeout":"-1s"}`), err: "filterTimeout: -1s is negative"},
		"two mistakes":          {args: raw(`{"stepBudget":0,"bindingTimeout":"0s"}`), err: "bindingTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readArgs(test.args)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if test.budget == 0 {
				test.budget = device.DefaultBudget
			}
			if test.timeout == 0 {
				test.timeout = DefaultBindingTimeout
			}
			if *got.StepBudget != test.budget || got.BindingTimeout.Duration != test.timeout {
				t.Errorf("got a budget of %d and a timeout of %v, want %d and %v",
					*got.StepBudget, got.BindingTimeout.Duration, test.budget, test.timeout)
			}
		})
	}
}
