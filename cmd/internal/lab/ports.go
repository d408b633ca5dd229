// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are picked below the range from which common kernels take the local
// end of outgoing connections, so that between the moment a port is picked and
// the moment its component listens no client can take it by accident.
const (
	firstPort = 10000
	lastPort  = 29999
)

const loopback = "127.0.0.1"

// freePorts picks n different loopback ports on which nothing listens. The
// ports are free when the function returns, not reserved.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for attempt := 0; len(ports) < n; attempt++ {
		if attempt > 100*n {
			return nil, fmt.Errorf("find %d free ports between %d and %d on %s: gave up after %d attempts", n, firstPort, lastPort, loopback, attempt)
		}
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		// Held until all are picked, so that none is picked twice.
		defer listener.Close()
		ports = append(ports, port)
	}
	return ports, nil
}

func address(port int) string {
	return net.JoinHostPort(loopback, strconv.Itoa(port))
}
