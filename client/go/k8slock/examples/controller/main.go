// SPDX-License-Identifier: Apache-2.0

// Command controller is a controller of several clusters, one of which it works in: that whose instance leads. It
// writes the leader's name and fencing token on each ConfigMap that has the label distlock.dev/example.
//
//	controller ELECTION IDENTITY, with KUBECONFIG of its cluster, and a broker of all clusters at DISTLOCK_SERVER
package main

import (
	"log"
	"os"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/k8slock"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: controller ELECTION IDENTITY")
	}
	ctrl.SetLogger(klog.Background())
	dl, err := distlock.Dial("")
	check(err)
	lock := k8slock.New(dl, k8slock.Config{Election: os.Args[1], Identity: os.Args[2]})
	manager, err := newManager(ctrl.GetConfigOrDie(), lock)
	check(err)
	check(watch(manager, lock))
	check(lock.Run(ctrl.SetupSignalHandler(), manager.Start))
}

// newManager makes one that is led by the lock. A lost lock ends it before another one leads; it then waits until all
// of its reconcilers have returned.
func newManager(config *rest.Config, lock *k8slock.Lock) (ctrl.Manager, error) {
	always, second := time.Duration(-1), time.Second
	return ctrl.NewManager(config, ctrl.Options{
		LeaderElection: true, LeaderElectionResourceLockInterface: lock, RetryPeriod: &second,
		GracefulShutdownTimeout: &always, Metrics: metrics.Options{BindAddress: "0"}})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
