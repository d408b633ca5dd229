// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMessagesAreWordedAsKubectlWordsThem(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want string
	}{
		{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), `Error from server (NotFound): pods "a" not found`},
		{
			fmt.Errorf("listing nodes: %w", apierrors.NewUnauthorized("no token")),
			"Error from server (Unauthorized): listing nodes: no token",
		},
		{errors.New("no such file"), "error: no such file"},
	} {
		if got := message(tc.err); got != tc.want {
			t.Errorf("message(%v) = %q, want %q", tc.err, got, tc.want)
		}
	}
}
