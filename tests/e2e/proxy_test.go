// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-scheduler/berth/tests/lab"
)

// request is a write of the scheduler, as the proxy sees it.
type request struct {
	method, resource, name, subresource string
}

// proxy stands between the scheduler and the API server. It has the scheduler's
// identity and shows every write to a hook before it is sent on.
type proxy struct {
	// kubeconfig is the file that leads a scheduler through the proxy.
	kubeconfig string
}

func newProxy(t *testing.T, cluster *lab.Lab, beforeWrite func(request)) *proxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Kubeconfigs["berth-scheduler"])
	if err != nil {
		t.Fatalf("read the scheduler's kubeconfig: %v", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // watches
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			beforeWrite(parseRequest(r))
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})

	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.AuthInfos["proxy"] = clientcmdapi.NewAuthInfo()
	kubeconfig.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	kubeconfig.CurrentContext = "proxy"
	path := filepath.Join(t.TempDir(), "proxy.kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	return &proxy{kubeconfig: path}
}

// parseRequest reads the path of a namespaced object:
// /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME[/SUBRESOURCE].
func parseRequest(r *http.Request) request {
	out := request{method: r.Method}
	_, path, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
	if !namespaced {
		return out
	}
	parts := strings.Split(path, "/")
	for i, field := range []*string{nil, &out.resource, &out.name, &out.subresource} {
		if field != nil && i < len(parts) {
			*field = parts[i]
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
