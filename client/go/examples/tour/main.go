// SPDX-License-Identifier: Apache-2.0

// A tour of the package: go run ./examples/tour, with a broker at DISTLOCK_SERVER.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	distlock "distlock.dev/client/go"
)

func main() {
	if err := tour(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func tour(ctx context.Context) error {
	dl, err := distlock.Dial("") // one client for a process; it connects at its first call
	if err != nil {
		return err
	}
	defer dl.Close()

	// A mutex: without Wait and Try until granted, or until ctx ends.
	lock, err := dl.Lock(ctx, "report", distlock.Wait(10*time.Second), distlock.Owner("host 7"))
	if err != nil {
		return err
	}
	fmt.Println("held:", lock.Valid(), "for", lock.ValidFor().Round(time.Second), "unless renewed")
	_, err = dl.Lock(ctx, "report", distlock.Try())
	var busy *distlock.BusyError
	if errors.As(err, &busy) {
		fmt.Println("busy:", busy.Reason, "by", busy.Holders[0].Owner)
	}
	newest, err := dl.CheckToken(ctx, "report", lock.Token())
	fmt.Println("token is the newest:", newest, err)
	outcome, err := lock.Release(ctx) // waits for the answer; Close would not
	fmt.Println("given back:", outcome, err)

	// Readers, permits of a semaphore, several locks at once.
	catalog, err := dl.RLock(ctx, "catalog")
	if err != nil {
		return err
	}
	defer catalog.Close()
	encode, err := dl.Permits(ctx, "encode", 4, 3)
	if err != nil {
		return err
	}
	defer encode.Close()
	both, err := dl.LockAll(ctx, distlock.Keys("account/7", "account/9"), distlock.Wait(5*time.Second))
	if err != nil {
		return err
	}
	defer both.Close()
	var keys []string
	for lock, err := range dl.List(ctx, "") {
		if err != nil {
			return err
		}
		keys = append(keys, lock.Key)
	}
	slices.Sort(keys)
	fmt.Println("held now:", keys)
	fmt.Println("tokens:", len(both.Tokens()))
	return elections(ctx, dl)
}

func elections(ctx context.Context, dl *distlock.Client) error {
	// A function under a lock: its context ends when the lock is lost.
	err := dl.Do(ctx, "nightly", func(ctx context.Context, token int64) error {
		fmt.Println("nightly:", ctx.Err() == nil && token > 0)
		return nil
	}, distlock.Try())
	if err != nil {
		return err
	}

	// An election: everybody can see who leads, and the value may change in office.
	term, err := dl.Campaign(ctx, "scheduler", "10.0.0.7:9000")
	if err != nil {
		return err
	}
	defer term.Close()
	leader, err := dl.Leader(ctx, "scheduler")
	if err != nil {
		return err
	}
	fmt.Println("leader:", leader.Value)
	fmt.Println("proclaimed:", term.Proclaim(ctx, "10.0.0.7:9001"))

	// A lease without a stream, which the caller renews; LeaseID hands it to another process.
	lease, err := dl.AcquireDetached(ctx, "deploy", distlock.TTL(30*time.Second))
	if err != nil {
		return err
	}
	left, err := lease.Renew(ctx)
	fmt.Println("renewed for", left.Round(time.Second), err)
	outcome, err := lease.Release(ctx)
	fmt.Println(outcome, err)

	// A loss: who knows the lease id can release the lock.
	lock, err := dl.Lock(ctx, "report")
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := dl.Detached(lock.LeaseID(), "report").Release(ctx); err != nil {
		return err
	}
	<-lock.Context().Done()
	fmt.Println(context.Cause(lock.Context()))
	return nil
}
