// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chaos tests what is left of Berth's promises when calls to the API
// server fail, are slow or lose their answers, when informers are behind, and
// when the scheduler is killed.
//
// A scheduler works in a lab through a proxy that does all this to it, with the
// real controllers on the other side. What may never be is read from the API
// objects alone. The plugins' own tests (faults_test.go beside them) go through
// every single call in the same way, against an API in memory.
//
// With BERTH_LONG=1 every case is run with the fault at other calls, too.
package chaos
