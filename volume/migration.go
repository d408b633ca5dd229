// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// migration is what an in-tree volume is to the CSI driver that has taken over
// from its plugin (KEP-625). The driver names topology by other labels.
type migration struct {
	// plugin is the name of the in-tree plugin.
	plugin string
	reach  reach
}

// migrationOf returns nil for a volume that no CSI driver can take over.
func migrationOf(pv *v1.PersistentVolume) *migration {
	translator := csitranslation.New()
	if !translator.IsPVMigratable(pv) {
		return nil
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(pv, nil)
	if err != nil {
		return nil
	}
	translated, err := translator.TranslateInTreePVToCSI(logr.Discard(), pv)
	if err != nil {
		return &migration{plugin: plugin, reach: reach{
			nodes:   nowhere,
			invalid: &invalidField{path: "spec", detail: "as a CSI volume: " + err.Error()},
		}}
	}
	return &migration{plugin: plugin, reach: affinityReach(translated)}
}

// migrates says whether a CSI driver has taken over from the plugin on the node.
func migrates(node *storagev1.CSINode, plugin string) bool {
	if node == nil {
		return false
	}
	for migrated := range strings.SplitSeq(node.Annotations[v1.MigratedPluginsAnnotationKey], ",") {
		if migrated == plugin {
			return true
		}
	}
	return false
}
