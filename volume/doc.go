// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package volume decides which volumes satisfy the PersistentVolumeClaims of a
// pod on a node. It takes API objects and returns decisions; it has no client,
// no clock and no state, and writes nothing.
//
// # The four sorts of claims
//
//   - Bound: the claim has its PersistentVolume. The node must be able to reach
//     it, by the labels that the volume's node affinity asks for. The claim's
//     class is not looked at and may be gone.
//   - Open, on an existing volume: the class waits for the first consumer
//     (volumeBindingMode WaitForFirstConsumer), and a volume that nobody holds
//     fits the claim.
//   - Open, to be provisioned: no such volume is left for it, and the class can
//     have one made for this node.
//   - Waiting: everything else. A claim that does not exist yet, is being
//     deleted, has lost its volume, has a class that is missing or binds
//     immediately. No node helps; the pod waits for an event.
//
// An open claim may be half way. If a volume is kept for it (its claimRef names
// the claim, with the same UID or none), the claim will be bound to that volume,
// so no other volume and no provisioning is considered. If the claim carries the
// annotation volume.kubernetes.io/selected-node, a provisioner is at work for
// that node, so no other node and no existing volume is considered, and the
// annotation is never overridden.
//
// # The verbs
//
// Facts is the picture of the cluster that all is decided on; [NewFacts] makes
// one from objects. Compile takes a pod and decides everything that needs no
// node. Narrow names the only nodes that could do, if local volumes leave few.
// Solve answers for one node with a Plan or a Rejection; it is called for many
// nodes at the same time and does little. Explain gives the same answer with
// every fact.
//
//	problem, rejection := volume.Compile(pod, facts, volume.Options{})
//	nodes, narrowed := problem.Narrow()
//	plan, rejection := problem.Solve(node)
//	plan.StaticUse()     // what to score the node by, also DynamicUse
//	plan.Bindings()      // set claimRef of these volumes
//	plan.Provisions()    // annotate these claims with the node
//	rejection := problem.Explain(node)
//	err := volume.Verify(problem, node, plan)
//
// To keep the plan until it is written, and to write it, is left to the caller.
//
// # Matching, with an example
//
// A volume fits a claim if it is of the claim's class, has its volume mode, all
// its access modes and its VolumeAttributesClass, carries the labels of its
// selector, is at least as large, is Available and neither held nor being
// deleted, and if the node reaches it. A claim with a data source is not put on
// an existing volume, which could not have the content.
//
// With several claims this is an assignment problem. Taking the smallest fit for
// one claim after the other misses solutions:
//
//	claim a  1Gi                    volume v1  2Gi  x=1
//	claim b  2Gi, selector x=1      volume v2  5Gi
//
// The smallest volume for a is v1, and then nothing is left for b. Solve puts a
// on v2 and b on v1. The rule, in this order:
//
//  1. As many claims as possible go on existing volumes, first of all those that
//     cannot be provisioned (because of their class, or because they have a
//     selector, which provisioners refuse).
//  2. The waste, volumes' sizes less claims' sizes, is as small as it can be.
//     So the largest claims are placed, and the smallest volumes are used.
//  3. Of equal claims and of equal volumes, the first by name. The smallest claim
//     takes the smallest of the chosen volumes that leaves the others theirs.
//
// The rule leaves one answer, whatever the order of the input. It also leaves
// the fewest and smallest claims to be provisioned, so that no other assignment
// would need less capacity. How it is found is described in assign.go; it is
// exact and takes polynomial time.
//
// # Provisioning, and capacity as a budget
//
// A volume can be made if the class has a provisioner, the node is in the
// topology that the class allows, and there is room. Room is checked for CSI
// drivers that report it (CSIDriver.spec.storageCapacity, KEP-1472): the node
// must reach a CSIStorageCapacity of the class whose maximumVolumeSize is at
// least the claim's size and whose capacity is at least the sum of the pod's
// claims that draw from it. Two claims of 100Gi do not fit into 100Gi.
// [CheckEach] turns the sum off.
//
// Drivers report late. What claims of any pod take from a capacity that does not
// show it yet is a [Draw]; Facts lists them, and what they take is not offered
// again. Of 10Gi, three claims of 3Gi are given to their provisioner and a fourth
// waits, although the object still says 10Gi. When a draw begins and ends is the
// caller's to decide, as it takes a clock. A claim that is being provisioned
// already is not checked again: it is one of the draws.
//
// # In-tree volumes
//
// Where the CSINode says that an in-tree plugin is migrated (KEP-625), its volumes
// are looked at as the CSI driver sees them: translated by csi-translation-lib,
// with topology by the driver's labels. This holds for bound volumes and for those
// that a claim may take, so that no claim is bound to what could not be mounted.
//
// # Looking things up
//
// A node affinity or node topology is parsed once per object. Volumes and
// capacities are kept by class and [Place], a label without which no node reaches
// them: the hostname for a local volume, the zone for a zonal one. A node asks
// under its own labels, so it costs the same however many other nodes there are.
// What many nodes share, such as a zone, is sorted once per Problem.
//
// # What is guaranteed
//
//   - A plan breaks no rule above. [Verify] checks that with none of the search's
//     code.
//   - A plan that exists is found, with one exception: where a node reaches
//     several CSIStorageCapacity objects of one class, each claim, the largest
//     first, draws from the first object by name that has room, and other
//     distributions are not tried.
//   - The same input gives the same plan. Sizes are compared exactly.
//   - A rejection names every claim that stands in the way, not the first only.
//   - Compiled objects do not change. A Problem only remembers what it has looked
//     up. All are safe for concurrent use.
//   - The cost of a node does not grow with the number of nodes, volumes and
//     capacities in the cluster. That of Explain does.
//
// # What it does not do
//
//   - Facts may move on while nodes are asked: each node is answered for the facts
//     of its moment. Whoever reserves the plan checks it against the latest.
//   - An in-tree provisioner reports no capacity, also where it is migrated: no
//     driver publishes CSIStorageCapacity objects for its classes.
//   - A capacity is held against the claims of its own class. A driver whose
//     classes share a pool reports it once for each, and nothing in the objects
//     says that they are the same storage; to guess it from equal numbers would
//     refuse pods that fit. So what claims of one class draw is not held against
//     those of another until the driver reports it. A pod that comes in between
//     may be placed where its volume cannot be made; the provisioner then gives
//     the claim back and the pod is tried again.
//   - Only claims that have a volume, or a node, narrow the nodes, and only by the
//     hostname label. That a class has local volumes on few nodes is found out by
//     asking.
//   - A node affinity by fields of the node (matchFields) is refused, since the
//     kubelet checks labels only before it mounts.
package volume
