// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A server that demands client certificates tells who called it with which of
// the lab's kubeconfigs.
func TestKubeconfigsAuthenticateTheirIdentity(t *testing.T) {
	ca, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, ca)
	dir := t.TempDir()
	if err := writeKubeconfigs(dir, server.URL, ca); err != nil {
		t.Fatal(err)
	}
	for _, id := range identities {
		config, err := clientcmd.BuildConfigFromFlags("", id.kubeconfig(dir))
		if err != nil {
			t.Fatal(err)
		}
		want := id.user + " " + strings.Join(id.groups, ",")
		if got := whoAmI(t, config); got != want {
			t.Errorf("kubeconfig %s authenticates as %q, want %q", id.name, got, want)
		}
	}
}

func TestOtherAuthoritiesAreNotTrusted(t *testing.T) {
	ca, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, ca)
	pair, err := other.client("lab-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	content, err := encodeKubeconfig(server.URL, "lab-admin", ca.cert, pair)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := client.Get(server.URL); err == nil {
		response.Body.Close()
		t.Error("a certificate of another authority was accepted")
	}
}

func serve(t *testing.T, ca *authority) *httptest.Server {
	t.Helper()
	pair, err := ca.serving("test")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		io.WriteString(w, subject.CommonName+" "+strings.Join(subject.Organization, ","))
	}))
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func whoAmI(t *testing.T, config *rest.Config) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
