// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParametersOfAClass(t *testing.T) {
	class := func(parameters map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Parameters: parameters}
	}
	b, err := behaviourOf(class(map[string]string{"delay": "2s", "fail": "n1,n2", "refuse": "*"}))
	if err != nil {
		t.Fatal(err)
	}
	if b.delay != 2*time.Second {
		t.Errorf("delay is %v, want 2s", b.delay)
	}
	for _, test := range []struct {
		what     string
		nodes    []string
		selected string
		want     bool
	}{
		{"a node of the list", b.fail, "n2", true},
		{"another node", b.fail, "n3", false},
		{"no node, of a list", b.fail, "", false},
		{"any node, of all", b.refuse, "n3", true},
		{"no node, of all", b.refuse, "", true},
		{"any node, of none", nil, "n1", false},
	} {
		if got := concerns(test.nodes, test.selected); got != test.want {
			t.Errorf("%s: got %t, want %t", test.what, got, test.want)
		}
	}
	for name, value := range map[string]string{"delay": "soon", "speed": "high"} {
		if _, err := behaviourOf(class(map[string]string{name: value})); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("parameter %s=%s: got error %v, want one that names it", name, value, err)
		}
	}
}
