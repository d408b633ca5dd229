// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
)

// Provisioners that are made while others run kill the process: they write to
// client-go's scheme. Here each of many is asked for its CSIDriver at the same
// moment, so that all of them go on together.
func TestStoragesRunSideBySide(t *testing.T) {
	const drivers = 32
	var together sync.WaitGroup
	together.Add(drivers)
	lists := make(chan struct{}, 100*drivers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
			if r.URL.Path == "/api/v1/persistentvolumes" && r.URL.Query().Has("limit") {
				lists <- struct{}{}
			}
			return
		}
		together.Done()
		together.Wait()
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"created"}}`)
	}))
	defer server.Close()

	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	var storages []*storage
	for i := range drivers {
		described := profiles.Storage{Driver: fmt.Sprintf("driver-%d.example.com", i), TopologyKey: "zone", Capacity: resource.MustParse("1Gi")}
		storages = append(storages, newStorage(t.Context(), client, factory, described))
	}
	var group errgroup.Group
	for _, storage := range storages {
		group.Go(func() error { return storage.run(ctx) })
	}
	// A provisioner that lists volumes is up. What it would do with them is not
	// what is tested.
	for range drivers {
		<-lists
	}
	cancel()
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
