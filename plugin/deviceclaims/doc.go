// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deviceclaims is the scheduler plugin that allocates ResourceClaims. It
// takes the place of the in-tree plugin DynamicResources.
//
// The extension points are the verbs of package device:
//
//	PreEnqueue   do the pod's claims exist?
//	PreFilter    View + Compile: one Problem for all claims of the pod
//	Filter       Solve: the Problem on one node gives a Plan or a Rejection
//	PostFilter   give up one allocation that keeps the pod from every node
//	Score        the Plan of one node against those of others
//	Reserve      the Plan of the chosen node goes into the ledger
//	PreBind      Commit: the Plan is written to the API server; then wait until
//	             the devices are ready
//	Unreserve    Undo: a Reserve or a half-done Commit is taken back
//
// A running pod that passes through the scheduler for a deferred resize keeps
// what it has, and the plugin steps aside.
//
// # The life of a claim
//
// The API server knows three forms of a claim: free, allocated, and allocated
// and reserved for pods. In between there is what only this process knows:
//
//	free ──Reserve──► planned ──Commit──► allocated, reserved ──► devices ready
//	  ▲                  │ │                      │                     │ no
//	  │                  │ └─(answer lost)► in doubt                    │
//	  └──────Undo────────┴────────────────────────┴─────────────────────┘
//
// A planned claim is in the ledger (package internal/ledger), where every later
// View sees its devices as taken and every pod that shares the claim sees it as
// allocated: it joins the plan, and whichever pod commits first writes it. A
// claim in doubt keeps its devices until a read of the claim tells what became
// of the write; then the pods that wait for devices are woken, since no event of
// the API tells them. Undo takes back only what the pod itself did, and the
// allocation only if nobody else counts on it and the pod cannot have been bound.
// What is committed for all claims of a pod stays reserved for it when anything
// but this plugin's PreBind fails.
//
// What is planned and written is also told to the framework's SharedDRAManager,
// so that in-tree plugins of other profiles in the same process see it. Profiles
// of this plugin share one ledger and one set of indexes.
//
// # Extended resources
//
// A container may request example.com/gpu: 2 as it does from a device plugin, and a
// DeviceClass serve that: by its extendedResourceName, or by the name
// deviceclass.resource.kubernetes.io/ and its own (KEP-5004). A node that reports
// the resource as allocatable has it from a device plugin, and NodeResourcesFit
// counts it. On any other, also on one that reports 0, the plugin for claims finds
// devices: one claim for all containers and resources that the node lacks, which is
// part of the pod's Problem beside the claims of its own. There is one Problem for
// each different set of such resources that a cycle meets, compiled when the first
// node asks.
//
// The claim has its name from PreFilter on, exists in the ledger from Reserve on, and
// is created, allocated and reserved by PreBind, which at last maps containers to
// requests in the pod's status. It belongs to one attempt:
//
//	planned ──Create──► created ──► allocated, reserved ──► mapped
//	   │                   │                │                  │ not bound
//	   └───────Undo────────┴────────────────┘                  └──► the next attempt's
//	                       deletes it                               PostFilter deletes it
//
// Nobody can take a mapping back. A pod that has one, and no claim any more, can
// only go where it gets a new claim.
//
// # Devices that take time
//
// A device may have binding conditions, which its driver reports in the status of
// the claim when the device is ready for the node. PreBind waits for them, woken
// by changes of the claim, and an event on the pod names the devices and what they
// lack. The wait ends in vain when a failure condition is true, when the pod or
// the claim goes, or bindingTimeout after the allocation, whoever began to wait.
// Then the allocation is given up unless others use it, and for half an hour the
// pod has the same device again only where nothing else does. The memory of this
// is lost with the process.
//
// # Preemption
//
// The scheduler's own preemption asks Filter about a node without some of its
// pods. A device counts as free then if its claim is reserved for nobody but those
// pods. When they are gone, Kubernetes' resourceclaim controller frees the claim.
// The claims of a pod that is being bound may not name it yet; whoever would have
// evicted it is tried again when it is bound. Nobody is evicted for what no eviction
// can cure: see package reason, and PreFilter, which leaves only the nodes that can
// reach the claims which the pod shares with others.
//
// What was freed for a pod is kept for it. On the node that a pod is nominated for,
// pods of no higher priority get a plan only if it leaves the nominated one its
// devices, counting in those of pods that are ending; if need be they take other
// devices than they would alone. In the moment between a nomination and the eviction
// that goes with it, nobody knows who makes room, and pods wait lest the same victims
// are chosen twice. A nominated pod whose claims the node could not even meet when
// empty is ignored. A device that several nodes can reach is kept on the nominated
// node only, and the in-tree plugin of another profile keeps nothing.
//
// PostFilter comes before preemption. A pod that will fit on its nominated node as
// soon as the claims of ended pods there are freed, and claims in doubt are settled,
// waits for that: nobody else is evicted. If an allocation that only this pod could
// use keeps it from a node, that is given up instead, the first by name, so that
// pods with the same claims agree and each attempt has one obstacle less.
//
// # Scores
//
// The better node is the one where the pod need not use a device that has just
// failed it, then the one with the earlier alternatives of prioritized lists (as
// in-tree), then, under the strategy Packed, the one whose pools are fuller, so
// that whole nodes stay whole. Scores are 0 to 100 and count with the weight of
// the plugin, 2 by default like the in-tree plugin's, which is why packing by
// devices outweighs the spreading by CPU and memory of the default plugins.
//
// # Groups
//
// A claim that a PodGroup and its pod name alike is reserved for the group (feature
// gate DRAWorkloadResourceClaims). Pods of a group join each other's plans as any
// pods do. The group's reservation is no single pod's to take back:
// PodGroupPostFilter gives it up when none of the group's pods runs or is about to.
// Composite groups are not served by PodGroupPostFilter.
//
// # Cost
//
// A cycle compares the list of all ResourceSlices with the last one, pointer by
// pointer, and looks up the claims of those pools that the nodes which Filter is
// asked about can see. What neither changed nor is asked for costs nothing else.
//
// # Metrics
//
//	berth_devices_solve_duration_seconds{result}  one search on one node: planned, refused, ended (budget)
//	berth_devices_solve_steps                     steps of searches that found a plan
//	berth_devices_rejections_total{reason}        refused nodes, by code of package reason
//	berth_devices_claims_in_flight{state}         entries of the ledger: Planned, Written, Doubtful
//	berth_devices_commit_conflicts_total          writes that found the claim changed
//	berth_devices_binding_wait_seconds{result}    waits for devices: ready, failed, gave_up
//	berth_devices_memo_lookups{memo,result}       uses of pools and lists of slices that were still valid (hit) or not (miss)
package deviceclaims
