// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lab runs a whole Kubernetes control plane on one machine from one
// executable: etcd, kube-apiserver, kube-controller-manager, a scheduler, and
// a simulation of what a machine room would add (nodes, device drivers,
// storage).
//
// # Processes
//
// Each component wants a process of its own, because each owns global flags,
// metrics and feature gates. So the parent starts its own executable again as
// `berth-lab component NAME ...` and supervises these children:
//
//	parent ── lifeline (stdin pipe) ──▶ etcd, apiserver, controller-manager, scheduler, machines
//	parent, children ── alive pipe ───▶ reaper
//
// The lifeline carries one byte, "go", which lets a child finish its slow
// start-up before what it depends on is there; and it ends when the parent
// ends, in whatever way, which ends the child. The alive pipe carries nothing:
// the parent and every child hold its write end, so the reaper reads its end
// when all of them are gone and removes the directory. Nothing outlives the
// lab, also when the parent is killed by SIGKILL.
//
// # Trust
//
// Everything listens on loopback only, on ports picked free, with TLS. A lab
// has two certificate authorities of its own, one for the cluster and one for
// etcd, and a client certificate per component; RBAC is on. The scheduler of
// this project runs with the rules in deploy/rbac.yaml and no others. The
// administrator and the simulated machines are in system:masters.
//
// # What is different from a real cluster
//
// No fsync, no leader election, no API priority and fairness, higher client
// rate limits, and only the controllers listed in components.go. Nodes are
// simulated: pods "run" without containers (package machines).
package lab
