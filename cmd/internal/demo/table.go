// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/cmd/internal/snapshot"
)

const nothing = "–"

// writeNodes prints what the lab has.
func writeNodes(ctx context.Context, out io.Writer, plane *runningLab, client kubernetes.Interface) error {
	s, err := snapshot.Take(ctx, client)
	if err != nil {
		return err
	}
	devices := map[string]int{}
	for _, slice := range s.ResourceSlices {
		if slice.Spec.NodeName != nil {
			devices[*slice.Spec.NodeName] += len(slice.Spec.Devices)
		}
	}
	var nodes []string
	for _, node := range s.Nodes {
		nodes = append(nodes, fmt.Sprintf("%s (%d)", node.Name, devices[node.Name]))
	}
	slices.Sort(nodes)
	_, err = fmt.Fprintf(out, "Ready after %.1f s. Nodes and their devices: %s\n", plane.took.Seconds(), strings.Join(nodes, ", "))
	return err
}

// writeTable prints where every expected pod is, from the API objects.
func writeTable(out io.Writer, s *snapshot.Snapshot, watch *podWatch) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "POD\tNODE\tDEVICES\tVOLUMES\tAFTER")
	for _, want := range expectations {
		pod := s.Pod(namespace, want.pod)
		if pod == nil {
			fmt.Fprintf(table, "%s\tmissing\t%s\t%s\t%s\n", want.pod, nothing, nothing, nothing)
			continue
		}
		after := nothing
		if took, ok := watch.after(pod.Name); ok {
			after = fmt.Sprintf("%.1fs", took.Seconds())
		}
		node := pod.Spec.NodeName
		if node == "" {
			node = string(v1.PodPending)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", pod.Name, node, deviceCell(s, pod), volumeCell(s, pod), after)
	}
	return table.Flush()
}

func deviceCell(s *snapshot.Snapshot, pod *v1.Pod) string {
	var parts []string
	for _, claim := range podClaims(s, pod) {
		if claim.Status.Allocation == nil {
			for _, request := range claim.Spec.Devices.Requests {
				if exact := request.Exactly; exact != nil {
					parts = append(parts, fmt.Sprintf("none of the %d it wants", exact.Count))
				}
			}
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			parts = append(parts, result.Device)
		}
		var others []string
		for _, consumer := range claim.Status.ReservedFor {
			if consumer.UID != pod.UID {
				others = append(others, consumer.Name)
			}
		}
		if len(others) > 0 {
			parts = append(parts, "(shared with "+strings.Join(others, ", ")+")")
		}
	}
	if len(parts) == 0 {
		return nothing
	}
	return strings.Join(parts, " ")
}

func volumeCell(s *snapshot.Snapshot, pod *v1.Pod) string {
	var parts []string
	for _, claim := range podVolumes(s, pod) {
		volume := s.PersistentVolume(claim.Spec.VolumeName)
		if volume == nil {
			parts = append(parts, claim.Name+" is not bound")
			continue
		}
		size := volume.Spec.Capacity[v1.ResourceStorage]
		text := size.String()
		if volume.Annotations["pv.kubernetes.io/provisioned-by"] != "" {
			text += ", provisioned"
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", short(volume.Name), text))
	}
	if len(parts) == 0 {
		return nothing
	}
	return strings.Join(parts, " ")
}

// short cuts the UID in the name of a provisioned volume.
func short(volume string) string {
	const prefix = "pvc-"
	if id, ok := strings.CutPrefix(volume, prefix); ok && len(id) > 8 {
		return prefix + id[:8] + "…"
	}
	return volume
}
