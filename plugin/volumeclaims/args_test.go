// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// inTreeArgs has the form of the in-tree plugin's internal args: no JSON names.
type inTreeArgs struct {
	metav1.TypeMeta
	BindTimeoutSeconds int64
	Shape              []struct{ Utilization, Score int32 }
}

func (a *inTreeArgs) DeepCopyObject() runtime.Object { return a }

func raw(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }

func TestArgs(t *testing.T) {
	seconds := func(n int) func(*Args) {
		return func(a *Args) { a.BindTimeout.Duration = time.Duration(n) * time.Second }
	}
	least := []ShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}
	for name, test := range map[string]struct {
		args runtime.Object
		// want changes the defaults.
		want func(*Args)
	}{
		"none":                 {args: nil},
		"empty":                {args: raw(``)},
		"timeout":              {args: raw(`{"bindTimeout": "30s"}`), want: seconds(30)},
		"timeout in seconds":   {args: raw(`{"bindTimeoutSeconds": 30}`), want: seconds(30)},
		"no waiting":           {args: raw(`bindTimeoutSeconds: 0`), want: seconds(0)},
		"own kind":             {args: raw(`{"kind": "VolumeClaimsArgs", "apiVersion": "x/v1"}`)},
		"in-tree kind":         {args: raw(`{"kind": "VolumeBindingArgs"}`)},
		"in-tree object":       {args: &inTreeArgs{BindTimeoutSeconds: 7}, want: seconds(7)},
		"own object":           {args: &Args{CapacityCheck: CheckEach}, want: func(a *Args) { a.CapacityCheck = CheckEach }},
		"capacity":             {args: raw(`{"capacityCheck": "Each", "capacitySettle": "1m"}`), want: func(a *Args) { a.CapacityCheck, a.CapacitySettle.Duration = CheckEach, time.Minute }},
		"no settling":          {args: raw(`{"capacitySettle": "0s"}`), want: func(a *Args) { a.CapacitySettle.Duration = 0 }},
		"shape for all":        {args: raw(`{"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}`), want: func(a *Args) { a.Shape = least }},
		"shape for existing":   {args: raw(`{"staticShape": [{"utilization": 50, "score": 5}]}`), want: func(a *Args) { a.StaticShape = []ShapePoint{{Utilization: 50, Score: 5}} }},
		"in-tree shape object": {args: &inTreeArgs{BindTimeoutSeconds: 600, Shape: []struct{ Utilization, Score int32 }{{0, 0}, {100, 10}}}, want: func(a *Args) { a.Shape = least }},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readArgs(test.args)
			if err != nil {
				t.Fatal(err)
			}
			want := Args{
				BindTimeout:    &metav1.Duration{Duration: DefaultBindTimeout},
				Shape:          []ShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}},
				StaticShape:    least,
				CapacityCheck:  CheckSum,
				CapacitySettle: &metav1.Duration{Duration: DefaultCapacitySettle},
			}
			if test.want != nil {
				test.want(&want)
			}
			got.TypeMeta, got.BindTimeoutSeconds = metav1.TypeMeta{}, nil
			if !equality.Semantic.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestArgsNameTheFieldThatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ args, want string }{
		"unknown field":         {`{"bindTimeouts": "30s"}`, "bindTimeouts"},
		"negative":              {`{"bindTimeoutSeconds": -1}`, "bindTimeoutSeconds"},
		"negative duration":     {`{"bindTimeout": "-1s"}`, "bindTimeout"},
		"more than it can hold": {`{"bindTimeoutSeconds": 9300000000000}`, "bindTimeoutSeconds"},
		"two timeouts":          {`{"bindTimeout": "1s", "bindTimeoutSeconds": 1}`, "bindTimeoutSeconds"},
		"wrong type":            {`{"bindTimeoutSeconds": "x"}`, "bindTimeoutSeconds"},
		"other kind":            {`{"kind": "NodeAffinityArgs"}`, "kind"},
		"negative settling":     {`{"capacitySettle": "-1s"}`, "capacitySettle"},
		"other check":           {`{"capacityCheck": "None"}`, "capacityCheck"},
		"utilization":           {`{"shape": [{"utilization": 101, "score": 1}]}`, "shape[0].utilization"},
		"score":                 {`{"shape": [{"utilization": 1, "score": 11}]}`, "shape[0].score"},
		"order":                 {`{"staticShape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]}`, "staticShape[1].utilization"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readArgs(raw(test.args)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one that names %s", err, test.want)
			}
		})
	}
}

func TestArgsAreCopiedDeeply(t *testing.T) {
	args, err := readArgs(raw(`{"shape": [{"utilization": 0, "score": 1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	other := args.DeepCopyObject().(*Args)
	other.BindTimeout.Duration, other.CapacitySettle.Duration, other.Shape[0].Score = 1, 1, 9
	if args.BindTimeout.Duration == 1 || args.CapacitySettle.Duration == 1 || args.Shape[0].Score == 9 {
		t.Errorf("a change of the copy changed the original: %+v", args)
	}
}
