// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func refuse(client *fake.Clientset, resource string, err error) {
	client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, err
	})
}

// A cluster of an older version, or a user with few rights, still gives a
// snapshot that says what is missing from it.
func TestTakeNotesWhatCannotBeRead(t *testing.T) {
	client := fake.NewClientset(
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "trainer"}},
	)
	refuse(client, "podgroups", apierrors.NewNotFound(schema.GroupResource{}, ""))
	refuse(client, "deviceclasses", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")))

	s, err := Take(context.Background(), client)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes) != 1 || s.Pod("ml", "trainer") == nil {
		t.Errorf("nodes %v, pods %v: want the one of each that exists", s.Nodes, s.Pods)
	}
	if want := []string{"podgroups.scheduling.k8s.io"}; !reflect.DeepEqual(s.NotServed, want) {
		t.Errorf("NotServed = %v, want %v", s.NotServed, want)
	}
	if want := []string{"deviceclasses.resource.k8s.io"}; !reflect.DeepEqual(s.NotAllowed, want) {
		t.Errorf("NotAllowed = %v, want %v", s.NotAllowed, want)
	}
}

func TestTakeFailsWithTheKindThatFailed(t *testing.T) {
	client := fake.NewClientset()
	refuse(client, "resourceslices", errors.New("connection refused"))
	_, err := Take(context.Background(), client)
	if err == nil || !strings.Contains(err.Error(), "listing resourceslices.resource.k8s.io: connection refused") {
		t.Errorf("error = %v, want one that names the kind", err)
	}
}

// A list that is in the Snapshot but is not read, or not handed on, would make
// every later decision quietly wrong.
func TestEveryListIsReadAndHandedOn(t *testing.T) {
	var s, again Snapshot
	lists := 0
	value := reflect.ValueOf(&s).Elem()
	for i := range value.NumField() {
		field := value.Field(i)
		if field.Type().Elem().Kind() != reflect.Pointer {
			continue
		}
		lists++
		field.Set(reflect.Append(field, reflect.New(field.Type().Elem().Elem())))
	}
	if got := len(s.Objects()); got != lists {
		t.Errorf("Objects returns %d objects of %d lists with one each", got, lists)
	}
	for _, object := range s.Objects() {
		if !again.add(object) {
			t.Errorf("a %T has no list", object)
		}
	}
	if got := len(again.Objects()); got != lists {
		t.Errorf("%d objects were added to %d lists", got, lists)
	}
	if got := len(s.kinds(fake.NewClientset())); got != lists {
		t.Errorf("%d kinds are read into %d lists", got, lists)
	}
}

// Templates that we may not see cannot be said to be missing.
func TestLacksTemplateOnlyWhereTemplatesCanBeSeen(t *testing.T) {
	client := fake.NewClientset(&resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpu"}})
	take := func() *Snapshot {
		s, err := Take(context.Background(), client)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := take(); s.LacksTemplate("ml", "gpu") || !s.LacksTemplate("ml", "other") || !s.LacksTemplate("web", "gpu") {
		t.Errorf("templates %v: want ml/gpu and no other", s.ResourceClaimTemplates)
	}
	refuse(client, "resourceclaimtemplates", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")))
	if take().LacksTemplate("ml", "other") {
		t.Error("templates may not be listed: want no answer that one is missing")
	}
}
