// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-scheduler/berth/internal/faults"
)

// server gives the fake clientset what it lacks: resource versions, conflicts,
// the status subresource, and faults.
type server struct {
	tracker clienttesting.ObjectTracker
	mutex   sync.Mutex
	version int
	// watches is how many watches were opened.
	watches atomic.Int64
	// before is called for each request for claims and may refuse it; after is
	// called when the request was carried out and may lose the answer.
	before, after func(verb, subresource string) error
	// calls, when set, are all these requests.
	calls *faults.Calls
	// watched are the watches for claims.
	watched faults.Watches
}

var claimsResource = resourceapi.SchemeGroupVersion.WithResource("resourceclaims")

func newServer(client *fake.Clientset, tracker clienttesting.ObjectTracker) *server {
	s := &server{tracker: tracker, version: 1000}
	client.PrependWatchReactor("resourceclaims", func(action clienttesting.Action) (bool, watch.Interface, error) {
		from, err := s.tracker.Watch(action.GetResource(), action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		s.watches.Add(1)
		return true, s.watched.Through(from), nil
	})
	client.PrependReactor("*", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		verb, subresource := action.GetVerb(), action.GetSubresource()
		if !slices.Contains([]string{"get", "update", "create", "delete"}, verb) {
			return false, nil, nil
		}
		obj, err := s.carryOut(verb, subresource, func() (runtime.Object, error) {
			switch verb {
			case "get":
				return s.get(action.(clienttesting.GetAction).GetName())
			case "update":
				return s.update(action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim), subresource)
			case "create":
				return s.create(action.(clienttesting.CreateAction).GetObject().(*resourceapi.ResourceClaim))
			default:
				deletion := action.(clienttesting.DeleteActionImpl)
				return nil, s.deleteClaim(deletion.GetName(), deletion.GetDeleteOptions())
			}
		})
		return true, obj, err
	})
	client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		verb, subresource := action.GetVerb(), action.GetSubresource()
		if verb != "patch" && verb != "get" {
			return false, nil, nil
		}
		obj, err := s.carryOut(verb, subresource, func() (runtime.Object, error) {
			_, obj, err := clienttesting.ObjectReaction(tracker)(action)
			return obj, err
		})
		return true, obj, err
	})
	return s
}

// create gives a claim what only an API server can.
func (s *server) create(claim *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.version++
	created := claim.DeepCopy()
	created.ResourceVersion = strconv.Itoa(s.version)
	created.UID = types.UID(fmt.Sprintf("created-%d", s.version))
	created.Status = resourceapi.ResourceClaimStatus{}
	if err := s.tracker.Create(claimsResource, created, namespace); err != nil {
		return nil, err
	}
	return created.DeepCopy(), nil
}

func (s *server) deleteClaim(name string, options metav1.DeleteOptions) error {
	claim, err := s.get(name)
	if err != nil {
		return err
	}
	if options.Preconditions == nil || *options.Preconditions.UID != claim.UID || len(claim.Finalizers) > 0 {
		return apierrors.NewConflict(claimsResource.GroupResource(), name, errors.New("it is another one, or protected"))
	}
	return s.tracker.Delete(claimsResource, namespace, name)
}

// carryOut makes the call, unless a test has something against it.
func (s *server) carryOut(verb, subresource string, call func() (runtime.Object, error)) (runtime.Object, error) {
	s.mutex.Lock()
	before, after, calls := s.before, s.after, s.calls
	s.mutex.Unlock()
	if calls != nil {
		return calls.Do(call)
	}
	if before != nil {
		if err := before(verb, subresource); err != nil {
			return nil, err
		}
	}
	obj, err := call()
	if after != nil {
		if lost := after(verb, subresource); lost != nil && err == nil {
			return nil, lost
		}
	}
	return obj, err
}

func (s *server) through(calls *faults.Calls) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.calls = calls
}

func (s *server) faults(before, after func(verb, subresource string) error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.before, s.after = before, after
}

func (s *server) get(name string) (*resourceapi.ResourceClaim, error) {
	obj, err := s.tracker.Get(claimsResource, namespace, name)
	if err != nil {
		return nil, err
	}
	return obj.(*resourceapi.ResourceClaim).DeepCopy(), nil
}

func (s *server) update(claim *resourceapi.ResourceClaim, subresource string) (*resourceapi.ResourceClaim, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	current, err := s.get(claim.Name)
	if err != nil {
		return nil, err
	}
	if claim.ResourceVersion != current.ResourceVersion || claim.UID != current.UID {
		return nil, apierrors.NewConflict(claimsResource.GroupResource(), claim.Name, nil)
	}
	updated := claim.DeepCopy()
	if subresource == "status" {
		updated = current.DeepCopy()
		updated.Status = *claim.Status.DeepCopy()
	} else {
		updated.Status = *current.Status.DeepCopy()
	}
	s.version++
	updated.ResourceVersion = strconv.Itoa(s.version)
	if err := s.tracker.Update(claimsResource, updated, namespace); err != nil {
		return nil, err
	}
	return updated.DeepCopy(), nil
}

func (s *server) all(t *testing.T) []resourceapi.ResourceClaim {
	t.Helper()
	list, err := s.tracker.List(claimsResource, resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), namespace)
	if err != nil {
		t.Fatalf("list claims: %v", err)
	}
	return list.(*resourceapi.ResourceClaimList).Items
}

// change lets somebody else change a claim.
func (s *server) change(t *testing.T, name string, change func(*resourceapi.ResourceClaim)) {
	t.Helper()
	for _, subresource := range []string{"", "status"} {
		claim, err := s.get(name)
		if err == nil {
			change(claim)
			_, err = s.update(claim, subresource)
		}
		if err != nil {
			t.Fatalf("change claim %s: %v", name, err)
		}
	}
}

func (s *server) remove(t *testing.T, name string) {
	t.Helper()
	if err := s.tracker.Delete(claimsResource, namespace, name); err != nil {
		t.Fatalf("delete claim %s: %v", name, err)
	}
}

func (s *server) add(t *testing.T, claim *resourceapi.ResourceClaim) {
	t.Helper()
	s.mutex.Lock()
	s.version++
	claim.ResourceVersion = strconv.Itoa(s.version)
	s.mutex.Unlock()
	if err := s.tracker.Create(claimsResource, claim, namespace); err != nil {
		t.Fatalf("create claim %s: %v", claim.Name, err)
	}
}
