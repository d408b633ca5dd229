// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// newEtcdCommand is a single etcd member that forgets everything when it ends.
func newEtcdCommand() *cobra.Command {
	var dir, clientURL, peerURL string
	var tls transport.TLSInfo
	command := &cobra.Command{
		Use:          etcdComponent,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			config, err := etcdConfig(dir, clientURL, peerURL, tls)
			if err != nil {
				return err
			}
			server, err := embed.StartEtcd(config)
			if err != nil {
				return fmt.Errorf("start etcd: %w", err)
			}
			return <-server.Err()
		},
	}
	flags := command.Flags()
	flags.StringVar(&dir, "data-dir", "", "data directory")
	flags.StringVar(&clientURL, "listen-client-url", "", "URL for clients")
	flags.StringVar(&peerURL, "listen-peer-url", "", "URL for peers, of which there are none")
	flags.StringVar(&tls.CertFile, "cert-file", "", "server certificate")
	flags.StringVar(&tls.KeyFile, "key-file", "", "private key of the server certificate")
	flags.StringVar(&tls.TrustedCAFile, "trusted-ca-file", "", "certificate authority of the clients")
	return command
}

func etcdConfig(dir, clientURL, peerURL string, tls transport.TLSInfo) (*embed.Config, error) {
	client, err := url.Parse(clientURL)
	if err != nil {
		return nil, fmt.Errorf("etcd client URL: %w", err)
	}
	peer, err := url.Parse(peerURL)
	if err != nil {
		return nil, fmt.Errorf("etcd peer URL: %w", err)
	}
	tls.ClientCertAuth = true
	config := embed.NewConfig()
	config.Dir = dir
	config.ListenClientUrls = []url.URL{*client}
	config.AdvertiseClientUrls = []url.URL{*client}
	config.ListenPeerUrls = []url.URL{*peer}
	config.AdvertisePeerUrls = []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo = tls
	config.PeerTLSInfo = tls
	config.UnsafeNoFsync = true
	// The only member elects itself after one election timeout.
	config.TickMs = 10
	config.ElectionMs = 100
	config.LogLevel = "warn"
	return config, nil
}
