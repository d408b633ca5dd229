// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/tests/lab"
)

// slowness is longer than controllers take to act on a write.
const slowness = time.Second

// fault is what a proxy does to the writes of a scheduler.
type fault string

const (
	none fault = ""
	// fails: the write is refused with an internal error.
	fails fault = "fails"
	// slow: the answer comes late.
	slow fault = "slow"
	// lost: the write is carried out and the connection ends without an answer.
	lost fault = "lost"
)

// proxy stands between a scheduler and the API server, with the scheduler's
// identity. It has a fault for some writes of some resources, and can hold back
// their watches.
type proxy struct {
	kubeconfig string
	resources  []string

	mutex sync.Mutex
	fault fault
	// Of the writes, those are struck whose number has the remainder.
	every, remainder int
	writes, struck   int

	held atomic.Bool
}

func newProxy(t *testing.T, cluster *lab.Lab, resources ...string) *proxy {
	t.Helper()
	p := &proxy{resources: resources}
	p.kubeconfig = cluster.StartProxy(t, lab.Proxy{Between: p.between, Answers: p.holdWatch})
	t.Cleanup(func() { p.held.Store(false) })
	return p
}

func (p *proxy) between(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p.strikes(r) {
		case fails:
			http.Error(w, "tested", http.StatusInternalServerError)
		case slow:
			forward.ServeHTTP(&lateAnswer{ResponseWriter: w}, r)
		case lost:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			forward.ServeHTTP(w, r)
		}
	})
}

// strike sets the fault of every nth write from now on, none for no fault.
func (p *proxy) strike(f fault, every, remainder int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.fault, p.every, p.remainder, p.writes, p.struck = f, every, remainder, 0, 0
}

// strikes returns the fault for the request.
func (p *proxy) strikes(r *http.Request) fault {
	if r.Method == http.MethodGet || !p.concerns(r.URL.Path) {
		return none
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.fault == none {
		return none
	}
	p.writes++
	if p.writes%p.every != p.remainder {
		return none
	}
	p.struck++
	return p.fault
}

func (p *proxy) hits() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.struck
}

func (p *proxy) concerns(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		for _, resource := range p.resources {
			if part == resource {
				return true
			}
		}
	}
	return false
}

// holdWatch lets the events of a watch wait while the informers are held back.
func (p *proxy) holdWatch(r *http.Response) error {
	if r.Request.URL.Query().Get("watch") != "" && p.concerns(r.Request.URL.Path) {
		r.Body = &heldBody{ReadCloser: r.Body, held: &p.held}
	}
	return nil
}

type heldBody struct {
	io.ReadCloser
	held *atomic.Bool
}

func (b *heldBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	for b.held.Load() {
		time.Sleep(10 * time.Millisecond)
	}
	return n, err
}

// lateAnswer waits before it begins an answer.
type lateAnswer struct{ http.ResponseWriter }

func (w *lateAnswer) WriteHeader(status int) {
	time.Sleep(slowness)
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets the proxy flush.
func (w *lateAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
