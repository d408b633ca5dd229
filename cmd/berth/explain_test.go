// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/cmd/internal/explain"
	"github.com/berth-scheduler/berth/cmd/internal/simulate"
	"github.com/berth-scheduler/berth/reason"
)

// JSON and YAML have the same fields, and say what they are. YAML includes JSON, so
// one parser reads both.
func TestFormatsForPrograms(t *testing.T) {
	report := &explain.Report{
		TypeMeta:   metav1.TypeMeta{APIVersion: explain.APIVersion, Kind: explain.Kind},
		Pod:        reason.Ref{Kind: "Pod", Namespace: "ml", Name: "trainer"},
		State:      explain.Refused,
		Verdict:    "Pending: no node takes it.",
		Preemption: &simulate.Preemption{Helps: true, Node: "n1", Victims: []reason.Ref{{Kind: "Pod", Namespace: "ml", Name: "notebook"}}},
	}
	for _, format := range []string{"json", "yaml"} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			if err := writers[format](&out, report); err != nil {
				t.Fatal(err)
			}
			if isJSON := strings.HasPrefix(out.String(), "{"); isJSON != (format == "json") {
				t.Errorf("not %s: %s", format, out.String())
			}
			var read explain.Report
			if err := yaml.UnmarshalStrict(out.Bytes(), &read); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(&read, report) {
				t.Errorf("read back %+v, want %+v", read, report)
			}
		})
	}
}
