// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profiles reads the descriptions of simulated clusters: which nodes,
// which devices, which storage.
//
// A profile is one YAML document. Unknown fields are errors. YAML anchors
// (&name, *name, <<: *name) may be used for what repeats.
//
//	description: Two nodes with eight GPUs each.   # one line, shown by --help
//
//	featureGates:                  # for all components, beside the lab's own
//	  DRAListTypeAttributes: true
//
//	nodes:                         # groups of nodes
//	- name: gpu                    # nodes are gpu-1, gpu-2, ...
//	  count: 2
//	  region: lab                  # topology.kubernetes.io/region, "lab" by default
//	  zones: [zone-a, zone-b]      # topology.kubernetes.io/zone, in turn
//	  labels: {example.com/rack: r1}
//	  taints: [...]                # as in a Node
//	  allocatable: {cpu: "96", memory: 1152Gi, pods: "110"}
//	  drivers:                     # DRA drivers; each publishes one pool per node, named like the node
//	  - name: gpu.nvidia.com
//	    slices:
//	    - repeat: 1                # a slice, device or counter set may be repeated
//	      devices:                 # as in a ResourceSlice
//	      - repeat: 8
//	        name: gpu-$(index)
//	        attributes: {uuid: {string: GPU-$(uuid)}}
//	        capacity: {memory: {value: 40Gi}}
//	  localVolumes:                # static PVs named local-pv-NODE-0, ...
//	  - storageClass: local
//	    count: 2
//	    capacity: 100Gi
//
//	storage:                       # CSI drivers that provision volumes
//	- driver: zonal.csi.berth.dev
//	  topologyKey: topology.kubernetes.io/zone   # one pool of capacity per value of this node label
//	  capacity: 500Gi              # of each pool, shared by all classes of the driver
//	  maximumVolumeSize: 100Gi     # optional
//	  reportDelay: 5s              # optional: how long the CSIStorageCapacity objects lag behind
//
//	objects:                       # any Kubernetes objects, created as they are
//	- apiVersion: storage.k8s.io/v1
//	  kind: StorageClass
//	  ...
//
// Classes (DeviceClass, StorageClass) belong into objects. A StorageClass whose
// provisioner is one of the storage drivers is provisioned by it; any number of
// classes may share a driver. These parameters of the class make the driver
// misbehave; NODES is a list of node names with commas, or * for all:
//
//	delay: 3s        takes so long to make a volume
//	fail: NODES      fails for these selected nodes and tries again; the claim stays with its node
//	refuse: NODES    gives the claim back: removes the annotation with the selected node
//
// A driver whose pool has run out refuses too, and then reports the truth at
// once, whatever the reportDelay. A provisioner that is none of the drivers
// never answers.
//
// In all strings of slices these are replaced:
//
//	$(node)        name of the node
//	$(zone)        zone of the node
//	$(slice)       how often the entry in slices was repeated before, from 0
//	$(index)       number of the device (or counter set) in its slice, from 0
//	$(uuid)        the same for the same node, driver, slice and index, different otherwise
//	$(slice.uuid)  the same for the same node, driver and slice, different otherwise
//
// When a number of nodes is asked for that is not the sum of the counts, the
// sequence of the groups' nodes is repeated or cut: with groups of two and one,
// five nodes belong to the first, first, second, first and first group.
package profiles
