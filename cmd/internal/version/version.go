// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version says which Berth a program is, and which Kubernetes is in it.
package version

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/pflag"
	"k8s.io/component-base/version/verflag"
)

const kubernetesModule = "k8s.io/kubernetes"

// Line is the answer to --version: Berth's own version, as Go notes it of a module
// or a clone, and that of the Kubernetes whose scheduler it has.
func Line() string {
	berth, kubernetes := "(unknown)", "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		berth = info.Main.Version
		for _, module := range info.Deps {
			if module.Path == kubernetesModule {
				kubernetes = module.Version
			}
		}
	}
	return fmt.Sprintf("berth %s, with the scheduler of Kubernetes %s", berth, kubernetes)
}

// PrintAndExitIfRequested answers the flag --version of the programs that have the
// flags of a component of Kubernetes. --version=raw tells what Kubernetes tells.
func PrintAndExitIfRequested() {
	if flag := pflag.Lookup("version"); flag != nil && flag.Value.String() == string(verflag.VersionTrue) {
		fmt.Println(Line())
		os.Exit(0)
	}
	verflag.PrintAndExitIfRequested()
}
