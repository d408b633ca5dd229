// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	readyPoll    = 25 * time.Millisecond
	readyTimeout = 2 * time.Minute
)

// condition is something that a component must reach. It returns nil once it
// is reached.
type condition func(ctx context.Context) error

// await polls until the condition of the child is reached. It ends early when
// any child fails.
func (s *supervisor) await(ctx context.Context, c *child, reached condition) error {
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		err := reached(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case failed := <-s.failed:
			return failed.failure()
		case <-timeout.C:
			return fmt.Errorf("%s is not ready after %s: %w\n%s", c.name, readyTimeout, err, c.logTail())
		case <-ticker.C:
		}
	}
}

// probe is reached when the URL answers 200.
func probe(client *http.Client, url string) condition {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("probe %s: %w", url, err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		if err != nil {
			return fmt.Errorf("probe %s: %w", url, err)
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("probe %s: %s: %s", url, response.Status, strings.TrimSpace(string(body)))
		}
		return nil
	}
}

// probeClient trusts the lab's cluster authority.
func probeClient(ca *authority) *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(ca.parsed)
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}
}

// serving is reached when the API server answers and its system namespaces are
// there. Roles come later.
func serving(admin kubernetes.Interface) condition {
	return func(ctx context.Context) error {
		for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, corev1.NamespaceNodeLease} {
			if _, err := admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
				return fmt.Errorf("read namespace %s: %w", name, err)
			}
		}
		return nil
	}
}

// controllersWork is reached when two different controllers have left their
// mark on the default namespace, which every pod there depends on.
func controllersWork(client kubernetes.Interface) condition {
	return func(ctx context.Context) error {
		_, accountErr := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		_, rootErr := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return errors.Join(accountErr, rootErr)
	}
}

// permitted is reached when the API server's authorizer knows the rules that
// let the client read pods.
func permitted(client kubernetes.Interface) condition {
	return func(ctx context.Context) error {
		_, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("list pods: %w", err)
		}
		return err
	}
}
