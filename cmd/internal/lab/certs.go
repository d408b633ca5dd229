// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLifetime is long enough for a lab that is forgotten over a
// weekend. The start is set back because clocks of containers differ.
const (
	certificateLifetime = 30 * 24 * time.Hour
	certificateBackdate = time.Hour
)

// keyPair is a certificate and its private key, PEM encoded.
type keyPair struct {
	cert []byte
	key  []byte
}

// write stores the pair as <path>.crt and <path>.key.
func (p keyPair) write(path string) error {
	if err := os.WriteFile(path+".crt", p.cert, 0o600); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	if err := os.WriteFile(path+".key", p.key, 0o600); err != nil {
		return fmt.Errorf("write private key: %w", err)
	}
	return nil
}

// authority signs certificates.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	template, err := certificateTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	signer, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("create certificate authority %q: %w", name, err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate authority %q: %w", name, err)
	}
	pair := keyPair{cert: encodePEM("CERTIFICATE", der), key: keyPEM}
	return &authority{keyPair: pair, parsed: parsed, signer: signer}, nil
}

// serving issues a certificate for servers on the loopback address.
func (a *authority) serving(commonName string) (keyPair, error) {
	template, err := certificateTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.IPAddresses = []net.IP{net.ParseIP(loopback)}
	template.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	return a.issue(template)
}

// client issues a certificate that authenticates as the user in these groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	template, err := certificateTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return keyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, keyPEM, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, key.Public(), a.signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("create certificate for %q: %w", template.Subject.CommonName, err)
	}
	return keyPair{cert: encodePEM("CERTIFICATE", der), key: keyPEM}, nil
}

func certificateTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("pick certificate serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-certificateBackdate),
		NotAfter:     now.Add(certificateLifetime),
	}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate private key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode private key: %w", err)
	}
	return key, encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// pki is where the files of a lab's certificates are.
type pki struct {
	dir  string
	etcd *authority
	// cluster signs the API server's and the components' certificates.
	cluster *authority
}

// newPKI creates all certificates that are not part of a kubeconfig.
func newPKI(dir string) (*pki, error) {
	etcd, err := newAuthority("berth-lab etcd")
	if err != nil {
		return nil, err
	}
	cluster, err := newAuthority("berth-lab cluster")
	if err != nil {
		return nil, err
	}
	etcdServing, err := etcd.serving("etcd")
	if err != nil {
		return nil, err
	}
	etcdClient, err := etcd.client("kube-apiserver")
	if err != nil {
		return nil, err
	}
	serving, err := cluster.serving("berth-lab")
	if err != nil {
		return nil, err
	}
	_, serviceAccountKey, err := newKey()
	if err != nil {
		return nil, err
	}
	p := &pki{dir: dir, etcd: etcd, cluster: cluster}
	pairs := []struct {
		name string
		pair keyPair
	}{
		{"etcd-ca", etcd.keyPair},
		{"etcd", etcdServing},
		{"etcd-client", etcdClient},
		{"ca", cluster.keyPair},
		{"serving", serving},
	}
	for _, file := range pairs {
		if err := file.pair.write(filepath.Join(dir, file.name)); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(p.file("service-account.key"), serviceAccountKey, 0o600); err != nil {
		return nil, fmt.Errorf("write service account key: %w", err)
	}
	return p, nil
}

func (p *pki) file(name string) string { return filepath.Join(p.dir, name) }
