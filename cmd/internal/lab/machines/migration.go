// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
)

// migratedPlugins are the in-tree plugins whose volumes kubelets leave to a CSI
// driver (KEP-625), as they say in an annotation of their CSINode.
var migratedPlugins = strings.Join([]string{
	plugins.AWSEBSInTreePluginName,
	plugins.AzureDiskInTreePluginName,
	plugins.AzureFileInTreePluginName,
	plugins.CinderInTreePluginName,
	plugins.GCEPDInTreePluginName,
	plugins.PortworxVolumePluginName,
	plugins.VSphereInTreePluginName,
}, ",")

// asMounted returns the volume as it is when a kubelet mounts it: an in-tree
// volume is that of the CSI driver, with its names for the topology.
func asMounted(persistent *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	translator := csitranslation.New()
	if !translator.IsPVMigratable(persistent) {
		return persistent, nil
	}
	translated, err := translator.TranslateInTreePVToCSI(klog.Background(), persistent)
	if err != nil {
		return nil, fmt.Errorf("translate PersistentVolume %s for CSI: %w", persistent.Name, err)
	}
	return translated, nil
}
