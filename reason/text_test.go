// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// full has every fact that there is.
func full(code Code) *Rejection {
	return &Rejection{
		Code: code, Node: "gpu-07", Claim: Ref{Kind: "ResourceClaim", Namespace: "ml", Name: "trainer"}, Request: "gpus", Volume: "scratch",
		Facts: Facts{
			Wanted: quantity("4Gi"), Had: quantity("3Gi"), Requests: []string{"gpus", "nics"}, Class: "gpu.example.com",
			Attribute: "gpu.example.com/root", Values: []string{"a", "b"}, Expression: "device.driver", Feature: "magic", Field: "spec.magic",
			Detail: "first line\nsecond line", Generation: 8, Object: Ref{Kind: "Thing", Name: "thing-1"}, Steps: 77,
			Devices: &Devices{
				InClass: 8, Match: 7, Free: 5, Groups: []Group{{"pci-1", 3}, {"pci-2", 2}},
				Held:     []Held{{Device{"gpu.example.com", "n", "gpu-2"}, Ref{Kind: "ResourceClaim", Namespace: "ml", Name: "notebook"}, []Ref{{"Pod", "ml", "notebook-0"}}}},
				Counters: []Counter{{Name: "set/memory", Total: *quantity("80Gi"), Left: *quantity("10Gi")}},
				Refused:  []Refused{{Device{"gpu.example.com", "n", "gpu-4"}, "taint sick:NoSchedule"}},
			},
		},
	}
}

func TestEveryCodeHasWords(t *testing.T) {
	for _, code := range slices.Sorted(maps.Keys(entries)) {
		if _, ok := sentences[code]; !ok {
			t.Errorf("%s has no sentence", code)
		}
		for name, r := range map[string]*Rejection{"bare": {Code: code}, "full": full(code)} {
			sentence := r.Sentence()
			if sentence == "" || strings.HasSuffix(sentence, ".") || strings.ContainsAny(sentence, "\n%") || strings.Contains(sentence, "  ") {
				t.Errorf("%s %s: no plain sentence: %q", name, code, sentence)
			}
			var text strings.Builder
			if err := Write(&text, r); err != nil {
				t.Errorf("%s %s: %v", name, code, err)
			}
			if !strings.HasPrefix(text.String(), string(code)+": "+sentence+"\n") || !strings.HasSuffix(text.String(), "\n") {
				t.Errorf("%s %s: the text does not begin with the sentence:\n%s", name, code, text.String())
			}
		}
	}
	for code := range sentences {
		if _, ok := entries[code]; !ok {
			t.Errorf("there are words for %s, which is not in the closed list", code)
		}
	}
}

func TestWriteTellsEveryFact(t *testing.T) {
	r := full(NotEnoughStorage)
	r.Claim.Kind = "PersistentVolumeClaim"
	r.Also = []*Rejection{{Code: DeviceClassNotFound, Facts: Facts{Class: "missing"}}}
	var text strings.Builder
	if err := Write(&text, r); err != nil {
		t.Fatal(err)
	}
	want := `NotEnoughStorage: class gpu.example.com has too little free storage for node gpu-07: PersistentVolumeClaim ml/trainer wants 4Gi, 3Gi are free
  node gpu-07 · claim ml/trainer · request gpus · volume scratch · class gpu.example.com
  requests: gpus, nics
  wanted 4Gi · had 3Gi
  8 in class · 7 match · 5 free
  by gpu.example.com/root: pci-1 3 free, pci-2 2 free
  counters left: set/memory 10Gi of 80Gi
  held: gpu-2 ml/notebook (pod ml/notebook-0)
  refused: gpu-4: taint sick:NoSchedule
  values: a, b
  object: Thing thing-1
  generation: 8
  feature: magic
  field: spec.magic
  expression: device.driver
  detail: first line
    second line
  steps: 77
DeviceClassNotFound: DeviceClass missing does not exist
  class missing
`
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}

// Devices of several pools are told by their whole names, neighbours of one
// claim together.
func TestHoldersShareALine(t *testing.T) {
	trainer := Ref{Kind: "ResourceClaim", Namespace: "ml", Name: "trainer"}
	d := &Devices{InClass: 3, Match: 3, Held: []Held{
		{Device: Device{"gpu.test", "a", "gpu-0"}, Claim: trainer},
		{Device: Device{"gpu.test", "a", "gpu-1"}, Claim: trainer},
		{Device: Device{"gpu.test", "b", "gpu-0"}, Claim: Ref{Kind: "ResourceClaim", Namespace: "ml", Name: "other"}},
	}}
	want := "held: gpu.test/a/gpu-0 gpu.test/a/gpu-1 ml/trainer, gpu.test/b/gpu-0 ml/other"
	if lines := d.lines(""); !slices.Contains(lines, want) {
		t.Errorf("got %q, want a line %q", lines, want)
	}
}

// The status of the framework groups nodes, so it must not differ between them.
func TestErrorDoesNotDependOnTheNode(t *testing.T) {
	for code := range entries {
		a, b := full(code), &Rejection{Code: code, Node: "other"}
		// What the pod asks for is the same on every node.
		b.Claim, b.Facts.Class, b.Facts.Feature = a.Claim, a.Facts.Class, a.Facts.Feature
		if a.Error() != b.Error() {
			t.Errorf("%s: %q and %q", code, a.Error(), b.Error())
		}
	}
	twice := &Rejection{Code: NoVolume, Also: []*Rejection{{Code: NoVolume}, {Code: VolumesShared}}}
	if got, want := twice.Error(), NoVolume.status()+"; "+VolumesShared.status(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Evicting pods is worth a try only when it can cure everything that is wrong.
func TestEvictableNeedsEveryReasonToBe(t *testing.T) {
	r := &Rejection{Code: NotEnoughDevices}
	if !r.Evictable() {
		t.Error("too few free devices: want evictable")
	}
	r.Also = []*Rejection{{Code: PoolIncomplete}}
	if r.Evictable() {
		t.Error("a pool is being updated as well: want not evictable")
	}
	for code, e := range entries {
		if e.evictable && e.kind != DoesNotFit {
			t.Errorf("%s is %s and evictable", code, e.kind)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken pipe")

func TestWriteReturnsTheErrorOfTheWriter(t *testing.T) {
	if err := Write(broken{}, &Rejection{Code: NoVolume}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}
