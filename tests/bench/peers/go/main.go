// SPDX-License-Identifier: Apache-2.0

// Measures the Go package beside redsync, uncontended: pairs of one acquire and one release per second, each caller
// with a lock of its own. The broker and the Redis that it uses must run already.
//
//	go run . -broker unix:///run/distlock/distlock.sock -redis /run/redis.sock
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	distlock "distlock.dev/client/go"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// pair takes and gives back the lock of one caller.
type pair func(ctx context.Context, key string) error

func main() {
	broker := flag.String("broker", "", "address of distlockd; \"\": as Dial finds it")
	store := flag.String("redis", "", "host:port or path of the Redis that distlockd uses")
	span := flag.Duration("span", 2*time.Second, "of each measurement")
	rounds := flag.Int("rounds", 3, "interleaved; the median is printed")
	only := flag.String("only", "", "measures only libraries whose names contain this")
	flag.Parse()
	if *store == "" {
		log.Fatal("-redis is missing; see -help")
	}
	dl, err := distlock.Dial(*broker)
	if err != nil {
		log.Fatal(err)
	}
	defer dl.Close()
	network := "tcp"
	if strings.HasPrefix(*store, "/") {
		network = "unix"
	}
	client := redis.NewClient(&redis.Options{Network: network, Addr: *store, PoolSize: 64})
	defer client.Close()
	peers := []struct {
		name string
		run  pair
	}{
		{"distlock, Release", distlockPair(dl, true)}, {"distlock, Close", distlockPair(dl, false)},
		{"redsync", redsyncPair(redsync.New(goredis.NewPool(client)))},
	}
	fmt.Println("| library | callers | pairs/s | CPU of this process for a pair, µs |")
	fmt.Println("|---|---:|---:|---:|")
	for _, callers := range []int{1, 64} {
		rates, costs := make([][]float64, len(peers)), make([][]float64, len(peers))
		for range *rounds {
			for i, peer := range peers {
				if !strings.Contains(peer.name, *only) {
					continue
				}
				rate, cost := measure(peer.run, callers, *span)
				rates[i], costs[i] = append(rates[i], rate), append(costs[i], cost)
			}
		}
		for i, peer := range peers {
			if len(rates[i]) == 0 {
				continue
			}
			fmt.Printf("| %s | %d | %.0f | %.0f |\n", peer.name, callers, median(rates[i]), median(costs[i]))
		}
	}
}

func distlockPair(dl *distlock.Client, waits bool) pair {
	return func(ctx context.Context, key string) error {
		lock, err := dl.Lock(ctx, key)
		if err != nil {
			return err
		}
		if !waits {
			return lock.Close()
		}
		_, err = lock.Release(ctx)
		return err
	}
}

func redsyncPair(rs *redsync.Redsync) pair {
	return func(ctx context.Context, key string) error {
		mutex := rs.NewMutex("redsync:" + key)
		if err := mutex.LockContext(ctx); err != nil {
			return err
		}
		_, err := mutex.UnlockContext(ctx)
		return err
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// cpu is what this process has used.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// measure lets the callers work for a while. It returns the pairs per second, and the CPU time of a pair in
// microseconds.
func measure(run pair, callers int, span time.Duration) (rate, cost float64) {
	used := cpu()
	var group sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	for caller := range callers {
		group.Add(1)
		go func() {
			defer group.Done()
			key := fmt.Sprintf("bench %d", caller)
			for time.Since(began) < span {
				if err := run(context.Background(), key); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				done.Add(1)
			}
		}()
	}
	group.Wait()
	pairs := float64(done.Load())
	return pairs / time.Since(began).Seconds(), float64((cpu() - used).Microseconds()) / pairs
}
