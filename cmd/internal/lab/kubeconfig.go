// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// identity is one client of the API server.
type identity struct {
	name   string // of the kubeconfig file
	user   string
	groups []string
}

var (
	adminIdentity             = identity{name: "admin", user: "lab-admin", groups: []string{"system:masters"}}
	machinesIdentity          = identity{name: "machines", user: "lab-machines", groups: []string{"system:masters"}}
	controllerManagerIdentity = identity{name: "kube-controller-manager", user: "system:kube-controller-manager"}
	upstreamSchedulerIdentity = identity{name: "kube-scheduler", user: "system:kube-scheduler"}
	// berthSchedulerIdentity has the permissions of deploy/rbac.yaml only.
	berthSchedulerIdentity = identity{name: "berth-scheduler", user: "berth-scheduler", groups: []string{"berth"}}
)

var identities = []identity{
	adminIdentity,
	machinesIdentity,
	controllerManagerIdentity,
	upstreamSchedulerIdentity,
	berthSchedulerIdentity,
}

func (i identity) kubeconfig(dir string) string {
	return filepath.Join(dir, i.name+".kubeconfig")
}

// writeKubeconfigs writes a self-contained kubeconfig per identity into dir.
func writeKubeconfigs(dir, server string, ca *authority) error {
	for _, id := range identities {
		pair, err := ca.client(id.user, id.groups...)
		if err != nil {
			return err
		}
		content, err := encodeKubeconfig(server, id.user, ca.cert, pair)
		if err != nil {
			return fmt.Errorf("encode kubeconfig of %s: %w", id.user, err)
		}
		if err := os.WriteFile(id.kubeconfig(dir), content, 0o600); err != nil {
			return fmt.Errorf("write kubeconfig of %s: %w", id.user, err)
		}
	}
	return nil
}

func encodeKubeconfig(server, user string, ca []byte, pair keyPair) ([]byte, error) {
	const name = "berth-lab"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user, Namespace: "default"}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// writeAtomically makes the file appear whole: whoever waits for it never
// reads a part.
func writeAtomically(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(temporary.Name())
	if _, err := temporary.Write(content); err != nil {
		temporary.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := temporary.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
