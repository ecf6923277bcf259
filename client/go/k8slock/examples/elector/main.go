// SPDX-License-Identifier: Apache-2.0

// Command elector is one candidate of an election: client-go's elector over a distlock broker. It prints when it leads
// and with which token, and exits with 1 when the leadership is lost.
//
//	elector ELECTION IDENTITY
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/k8slock"
	"k8s.io/client-go/tools/leaderelection"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: elector ELECTION IDENTITY")
	}
	dl, err := distlock.Dial("")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	lock := k8slock.New(dl, k8slock.Config{Election: os.Args[1], Identity: os.Args[2]})
	err = lock.Elect(ctx, leaderelection.LeaderElectionConfig{
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second / 4,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { work(ctx, lock) },
			OnStoppedLeading: func() {},
			OnNewLeader:      func(identity string) { fmt.Println("leader:", identity) },
		}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("given back")
}

// work is what the leader does, until ctx ends.
func work(ctx context.Context, lock *k8slock.Lock) {
	fmt.Println("leading with token", lock.Token())
	<-ctx.Done()
	fmt.Println("work is over:", context.Cause(ctx))
}
