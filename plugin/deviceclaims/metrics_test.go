// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"os"
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
)

// Every metric is there under the name and with the labels that the package
// documentation promises, once the plugin has worked.
func TestMetricsAreAsDocumented(t *testing.T) {
	pod := makePod("pod", "a")
	c := newClusterWithConditions(t, makeClass(), makeSlice("n1", "gpu-0"), makeClaim("a"), makeClaim("b"), pod)
	a := c.reserve(pod, "n1")
	c.server.change(t, "a", deallocate) // a conflict for the commit
	if status := a.preBind(); !status.IsSuccess() {
		t.Fatal(status)
	}
	c.begin(makePod("other", "b"), "n1") // a rejection
	bindingWaits.WithLabelValues("ready").Observe(1)

	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, family := range families {
		var names []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			names = append(names, label.GetName())
		}
		labels[family.GetName()] = strings.Join(names, ",")
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := 0
	for line := range strings.Lines(string(doc)) {
		_, line, found := strings.Cut(line, "//\t")
		if !found || !strings.HasPrefix(line, "berth_") {
			continue
		}
		documented++
		name, _, _ := strings.Cut(line, " ")
		name, want, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		if got, ok := labels[name]; !ok || got != want {
			t.Errorf("metric %s has labels %q (there is one: %v), documented are %q", name, got, ok, want)
		}
		delete(labels, name)
	}
	for name := range labels {
		if strings.HasPrefix(name, "berth_devices_") {
			t.Errorf("metric %s is not documented", name)
		}
	}
	if documented == 0 {
		t.Error("the documentation names no metric")
	}
}
