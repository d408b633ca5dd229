// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/berth-scheduler/berth/tests/lab"
)

// request is a write of the scheduler, as the proxy sees it.
type request struct {
	method, resource, name, subresource string
}

// proxyWrites returns the kubeconfig that leads a scheduler through a proxy, which
// shows every write to a hook before it is sent on.
func proxyWrites(t *testing.T, cluster *lab.Lab, beforeWrite func(request)) (kubeconfig string) {
	t.Helper()
	return cluster.StartProxy(t, lab.Proxy{Between: func(forward http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				beforeWrite(parseRequest(r))
			}
			forward.ServeHTTP(w, r)
		})
	}})
}

// parseRequest reads the path of an object:
// /api/VERSION or /apis/GROUP/VERSION, then [/namespaces/NAMESPACE]/RESOURCE/NAME[/SUBRESOURCE].
func parseRequest(r *http.Request) request {
	out := request{method: r.Method}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) > skip+2 && parts[skip] == "namespaces" {
		skip += 2
	}
	for i, field := range []*string{&out.resource, &out.name, &out.subresource} {
		if skip+i < len(parts) {
			*field = parts[skip+i]
		}
	}
	return out
}

// orMain names the write of an object that is not of a subresource.
func orMain(subresource string) string {
	if subresource == "" {
		return "main"
	}
	return subresource
}

// onceEach says yes the first time that it sees a key.
type onceEach struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (o *onceEach) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[key] {
		return false
	}
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	o.seen[key] = true
	return true
}

func (o *onceEach) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.seen)
}
