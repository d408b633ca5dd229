// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"net"
	"testing"
)

func TestFreePortsAreDifferentAndFree(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("port %d picked twice", port)
		}
		seen[port] = true
		listener, err := net.Listen("tcp", address(port))
		if err != nil {
			t.Errorf("port %d is not free: %v", port, err)
			continue
		}
		listener.Close()
	}
}
