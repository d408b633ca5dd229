// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy says what stands between a scheduler and the API server.
type Proxy struct {
	// Between is given what carries a request out, and returns what is done with
	// requests instead.
	Between func(forward http.Handler) http.Handler
	// Answers, when set, may change an answer before it is passed on.
	Answers func(*http.Response) error
}

// StartProxy returns the kubeconfig that leads a scheduler through the proxy, which
// has the identity of this project's scheduler. The test's cleanup ends it.
func (l *Lab) StartProxy(t testing.TB, proxy Proxy) (kubeconfig string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfigs["berth-scheduler"])
	if err != nil {
		t.Fatalf("read the scheduler's kubeconfig: %v", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatalf("connect as the scheduler: %v", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatalf("parse the address of the API server: %v", err)
	}
	server := httptest.NewServer(proxy.Between(&httputil.ReverseProxy{
		Transport:      transport,
		FlushInterval:  -1, // watches
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: proxy.Answers,
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	through := clientcmdapi.NewConfig()
	through.Clusters["proxy"] = &clientcmdapi.Cluster{Server: server.URL}
	through.AuthInfos["proxy"] = clientcmdapi.NewAuthInfo()
	through.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	through.CurrentContext = "proxy"
	kubeconfig = filepath.Join(t.TempDir(), "proxy.kubeconfig")
	if err := clientcmd.WriteToFile(*through, kubeconfig); err != nil {
		t.Fatalf("write the kubeconfig of the proxy: %v", err)
	}
	return kubeconfig
}
