// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/cmd/internal/lab/profiles"
	"github.com/berth-scheduler/berth/deploy"
)

// Options says what lab to run.
type Options struct {
	// Profile is the name of a built-in profile or a file.
	Profile string
	// Nodes is the number of nodes; 0 takes the profile's.
	Nodes     int
	Scheduler Scheduler
	// Kubeconfig, ReadyFile and Logs are paths where the administrator's
	// kubeconfig, the Status and the components' logs go. When they are empty
	// the kubeconfig and logs go to the lab's own directory, and no Status is
	// written. Kubeconfig and ReadyFile must not exist before and are removed
	// at the end; logs are kept.
	Kubeconfig string
	ReadyFile  string
	Logs       string
}

// Up runs a lab until the context ends, which is not an error. When it returns,
// nothing of the lab is left.
func Up(ctx context.Context, options Options, out io.Writer) (err error) {
	began := time.Now()
	profile, err := profiles.Load(options.Profile)
	if err != nil {
		return err
	}
	if options.Nodes == 0 {
		options.Nodes = profile.Size()
	}
	for _, path := range []string{options.Kubeconfig, options.ReadyFile} {
		if err := mustBeNew(path); err != nil {
			return err
		}
	}
	l, err := newLab(options, profile)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, l.stop()); err == nil {
			fmt.Fprintln(out, "Stopped and removed everything.")
		}
	}()
	fmt.Fprintln(out, "Starting etcd, kube-apiserver, kube-controller-manager, a scheduler and simulated nodes ...")
	if err := l.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("start lab: %w", err)
	}
	if err := l.announce(out, time.Since(began)); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(out, "Stopping ...")
		return nil
	case failed := <-l.children.failed:
		return failed.failure()
	}
}

func mustBeNew(path string) error {
	if path == "" {
		return nil
	}
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s exists already: the lab would overwrite it and remove it at the end", path)
}

// lab is one running lab.
type lab struct {
	layout
	options   Options
	leftovers []string
	children  *supervisor
}

// newLab creates the directory with what the components read, and the reaper
// that removes it.
func newLab(options Options, profile *profiles.Profile) (_ *lab, err error) {
	dir, err := os.MkdirTemp("", "berth-lab-")
	if err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	l := &lab{options: options, leftovers: []string{dir}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.stop())
		}
	}()
	l.dir = dir
	l.featureGates = maps.Clone(labFeatureGates)
	maps.Copy(l.featureGates, profile.FeatureGates)
	for _, path := range []*string{&l.options.Kubeconfig, &l.options.ReadyFile, &l.options.Logs} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	l.logs = l.options.Logs
	if l.logs == "" {
		l.logs = filepath.Join(dir, "logs")
	}
	for _, path := range []string{l.options.Kubeconfig, l.options.ReadyFile} {
		if path != "" {
			l.leftovers = append(l.leftovers, path)
		}
	}
	pkiDir := filepath.Join(dir, "pki")
	for _, path := range []string{l.logs, l.kubeconfigs(), pkiDir} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("create directory: %w", err)
		}
	}
	if l.children, err = newSupervisor(l.logs, l.leftovers); err != nil {
		return nil, err
	}
	if err := l.pickPorts(); err != nil {
		return nil, err
	}
	if l.pki, err = newPKI(pkiDir); err != nil {
		return nil, err
	}
	if err := writeKubeconfigs(l.kubeconfigs(), l.server(), l.pki.cluster); err != nil {
		return nil, err
	}
	return l, nil
}

// start returns when everything works. All processes begin at once, because
// each spends time on itself before it needs another.
func (l *lab) start(ctx context.Context) error {
	if err := l.startAll(); err != nil {
		return err
	}
	admin, err := l.client(adminIdentity)
	if err != nil {
		return err
	}
	if err := l.release(etcdComponent, apiserverComponent); err != nil {
		return err
	}
	apiserver := l.children.byName[apiserverComponent]
	if err := l.children.await(ctx, apiserver, serving(admin)); err != nil {
		return err
	}
	// The machines need nobody's roles.
	if err := l.release(machinesComponent); err != nil {
		return err
	}
	if err := createRBAC(ctx, admin, deploy.RBAC); err != nil {
		return err
	}
	probes := probeClient(l.pki.cluster)
	if err := l.children.await(ctx, apiserver, probe(probes, l.server()+"/readyz")); err != nil {
		return err
	}
	if err := l.release(controllerManagerComponent); err != nil {
		return err
	}
	if err := l.startScheduling(ctx, probes); err != nil {
		return err
	}
	controllerManager := l.children.byName[controllerManagerComponent]
	if err := l.children.await(ctx, controllerManager, probe(probes, "https://"+address(l.ports.controllerManager)+"/healthz")); err != nil {
		return err
	}
	if err := l.children.await(ctx, controllerManager, controllersWork(admin)); err != nil {
		return err
	}
	machines := l.children.byName[machinesComponent]
	return l.children.await(ctx, machines, probe(probes, "http://"+address(l.ports.machines)+"/readyz"))
}

// startAll starts the processes, which then wait to be released.
func (l *lab) startAll() error {
	components := []struct {
		name string
		args []string
	}{
		{etcdComponent, l.etcdArgs()},
		{apiserverComponent, l.apiserverArgs()},
		{controllerManagerComponent, l.controllerManagerArgs()},
		{machinesComponent, l.machinesArgs(l.options.Profile, l.options.Nodes)},
	}
	for _, component := range components {
		if err := l.children.start(component.name, component.args...); err != nil {
			return err
		}
	}
	if component, id, found := l.options.Scheduler.component(); found {
		return l.children.start(component, l.schedulerArgs(id)...)
	}
	return nil
}

// startScheduling returns when the scheduler is ready, if there is to be one.
func (l *lab) startScheduling(ctx context.Context, probes *http.Client) error {
	berth, err := l.client(berthSchedulerIdentity)
	if err != nil {
		return err
	}
	// Also without a scheduler: the user may start one.
	if err := l.children.await(ctx, l.children.byName[apiserverComponent], permitted(berth)); err != nil {
		return err
	}
	component, _, found := l.options.Scheduler.component()
	if !found {
		return nil
	}
	if err := l.release(component); err != nil {
		return err
	}
	return l.children.await(ctx, l.children.byName[component], probe(probes, "https://"+address(l.ports.scheduler)+"/readyz"))
}

func (l *lab) release(components ...string) error {
	for _, component := range components {
		if err := l.children.byName[component].release(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) client(id identity) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", id.kubeconfig(l.kubeconfigs()))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %s: %w", id.user, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create client of %s: %w", id.user, err)
	}
	return client, nil
}

// stop ends the processes and removes what the lab has written.
func (l *lab) stop() error {
	var err error
	if l.children != nil {
		err = l.children.stop()
	} else {
		err = removeAll(l.leftovers)
	}
	if err != nil {
		return fmt.Errorf("remove lab: %w", err)
	}
	return nil
}
