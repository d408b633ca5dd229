// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// controllers are those that the life of pods, claims and volumes depends on.
// The names are of k8s.io/kubernetes/cmd/kube-controller-manager/names.
var controllers = []string{
	"deployment-controller",
	"device-taint-eviction-controller",
	"disruption-controller",
	"ephemeral-volume-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"persistentvolume-binder-controller",
	"persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller",
	"pod-garbage-collector-controller",
	"podgroup-protection-controller",
	"replicaset-controller",
	"resourceclaim-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"statefulset-controller",
	"taint-eviction-controller",
}

// apiVersions are served beside those that 1.37 serves by default.
var apiVersions = []string{
	"resource.k8s.io/v1alpha3",
	"resource.k8s.io/v1beta1",
	"resource.k8s.io/v1beta2",
	"scheduling.k8s.io/v1alpha3",
	"scheduling.k8s.io/v1beta1",
	"storage.k8s.io/v1beta1",
}

// labFeatureGates are on in every lab beside the defaults of 1.37: PodGroup is
// an API of its own gate.
var labFeatureGates = map[string]bool{
	"GenericWorkload": true,
}

// The clients' own rate limits would be what is measured otherwise.
const (
	clientQPS   = "2000"
	clientBurst = "4000"
)

// layout is where the parts of one lab are.
type layout struct {
	dir          string
	logs         string
	pki          *pki
	featureGates map[string]bool
	ports        struct {
		etcd, etcdPeer, apiserver, controllerManager, scheduler, machines int
	}
}

func (l *layout) kubeconfigs() string { return filepath.Join(l.dir, "kubeconfigs") }

func (l *layout) server() string { return "https://" + address(l.ports.apiserver) }

func (l *layout) pickPorts() error {
	p := &l.ports
	wanted := []*int{&p.etcd, &p.etcdPeer, &p.apiserver, &p.controllerManager, &p.scheduler, &p.machines}
	ports, err := freePorts(len(wanted))
	if err != nil {
		return err
	}
	for i, port := range ports {
		*wanted[i] = port
	}
	return nil
}

func (l *layout) etcdArgs() []string {
	return []string{
		"--data-dir=" + filepath.Join(l.dir, "etcd"),
		"--listen-client-url=https://" + address(l.ports.etcd),
		"--listen-peer-url=https://" + address(l.ports.etcdPeer),
		"--cert-file=" + l.pki.file("etcd.crt"),
		"--key-file=" + l.pki.file("etcd.key"),
		"--trusted-ca-file=" + l.pki.file("etcd-ca.crt"),
	}
}

func (l *layout) apiserverArgs() []string {
	return append(l.servingArgs(l.ports.apiserver),
		"--etcd-servers=https://"+address(l.ports.etcd),
		"--etcd-cafile="+l.pki.file("etcd-ca.crt"),
		"--etcd-certfile="+l.pki.file("etcd-client.crt"),
		"--etcd-keyfile="+l.pki.file("etcd-client.key"),
		"--client-ca-file="+l.pki.file("ca.crt"),
		// No proxy is trusted: nobody has a certificate with this name. Without
		// these the other components complain that they cannot know whom to trust.
		"--requestheader-client-ca-file="+l.pki.file("ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+l.pki.file("service-account.key"),
		"--service-account-signing-key-file="+l.pki.file("service-account.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--runtime-config="+l.runtimeConfig(),
		// The API refuses endpoints on loopback addresses.
		"--endpoint-reconciler-type=none",
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
		"--allow-privileged=true",
		// Simulated nodes have no kubelet. Asking for logs must fail at once, and
		// not by asking a name server for the node.
		"--kubelet-preferred-address-types=InternalIP",
	)
}

func (l *layout) runtimeConfig() string {
	enabled := make([]string, len(apiVersions))
	for i, version := range apiVersions {
		enabled[i] = version + "=true"
	}
	return strings.Join(enabled, ",")
}

func (l *layout) controllerManagerArgs() []string {
	return append(append(l.servingArgs(l.ports.controllerManager), l.clientArgs(controllerManagerIdentity)...),
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+l.pki.file("service-account.key"),
		"--root-ca-file="+l.pki.file("ca.crt"),
		// All nodes live in one process, without which there is no lab. On a busy
		// machine it may be late to renew their leases, and they live all the same.
		"--node-monitor-grace-period=1h",
	)
}

func (l *layout) schedulerArgs(id identity) []string {
	return append(l.servingArgs(l.ports.scheduler), l.clientArgs(id)...)
}

func (l *layout) machinesArgs(profileFile string, nodes int) []string {
	return []string{
		"--kubeconfig=" + machinesIdentity.kubeconfig(l.kubeconfigs()),
		"--ready-address=" + address(l.ports.machines),
		"--profile=" + profileFile,
		"--nodes=" + strconv.Itoa(nodes),
	}
}

func (l *layout) servingArgs(port int) []string {
	args := []string{
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + l.pki.file("serving.crt"),
		"--tls-private-key-file=" + l.pki.file("serving.key"),
		"--profiling=false",
	}
	for _, name := range slices.Sorted(maps.Keys(l.featureGates)) {
		args = append(args, fmt.Sprintf("--feature-gates=%s=%t", name, l.featureGates[name]))
	}
	return args
}

func (l *layout) clientArgs(id identity) []string {
	kubeconfig := id.kubeconfig(l.kubeconfigs())
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--authentication-tolerate-lookup-failure=true",
		"--leader-elect=false",
		"--kube-api-qps=" + clientQPS,
		"--kube-api-burst=" + clientBurst,
	}
}
