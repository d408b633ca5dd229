// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lab gives a test a Kubernetes cluster of its own:
//
//	cluster := lab.Start(t, lab.Options{Profile: "gpus"})
//	pods, err := cluster.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
//
// It starts the prebuilt bin/berth-lab, so a test that uses it builds in
// seconds; `make build` comes first. The lab ends with the test, also when the
// test process is killed. When the test fails, the end of the components' logs
// is part of its output.
//
// What every test on a lab needs is here too: to wait until something is so
// (Eventually), to stand between a scheduler and the API server (Lab.StartProxy),
// and to check what may never be of volumes (CheckVolumes).
//
// Environment:
//
//	BERTH_BIN       directory of the binaries, bin in the repository by default
//	BERTH_LAB_LOGS  directory where all logs are kept, one directory per test
package lab
