// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// message says an error as kubectl says it. Why there is no answer from the
// server is the whole message; anything else keeps what was being done.
func message(err error) string {
	var connection *url.Error
	if errors.As(err, &connection) {
		server := connection.URL
		if parsed, err := url.Parse(connection.URL); err == nil {
			server = parsed.Host
		}
		if strings.Contains(connection.Err.Error(), "connection refused") {
			return fmt.Sprintf("The connection to the server %s was refused - did you specify the right host or port?", server)
		}
		return fmt.Sprintf("Unable to connect to the server %s: %v", server, connection.Err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		if why := status.Status().Reason; why != "" {
			return fmt.Sprintf("Error from server (%s): %v", why, err)
		}
		return fmt.Sprintf("Error from server: %v", err)
	}
	return "error: " + err.Error()
}
