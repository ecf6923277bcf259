// SPDX-License-Identifier: Apache-2.0

// One measurement of one lock library of Go, or of etcd: driver --system redsync --work pairs --store ... --broker ...
//
// As ../peer.mjs, in arguments, works and output. Callers are goroutines that share one client.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"distlock.dev/client/go"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

const queueUp = 300 * time.Millisecond // for the waiters to queue; redsync does not report it

type release func() error

// acquire waits for the lock of a key.
type acquire func(key string) (release, error)

type shape struct {
	callers, runs, waiters int
	seconds, warm, hold    float64
	pauses                 []time.Duration
}

func ofRedsync(url string) (acquire, error) {
	options, err := goredislib.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.PoolSize = 64
	locks := redsync.New(goredis.NewPool(goredislib.NewClient(options)))
	return func(key string) (release, error) {
		mutex := locks.NewMutex(key)
		if err := mutex.Lock(); err != nil {
			return nil, err
		}
		return func() error {
			_, err := mutex.Unlock()
			return err
		}, nil
	}, nil
}

func ofDistlock(broker string) (acquire, error) {
	dl, err := distlock.Dial(broker)
	if err != nil {
		return nil, err
	}
	return func(key string) (release, error) {
		lock, err := dl.Lock(context.Background(), key)
		if err != nil {
			return nil, err
		}
		return lock.Close, nil
	}, nil
}

func percentile(sorted []float64, part float64) float64 {
	return sorted[int(part*float64(len(sorted)-1))]
}

func latencies(micros []float64) (map[string]float64, error) {
	if len(micros) == 0 {
		return nil, errors.New("nothing was done")
	}
	slices.Sort(micros)
	return map[string]float64{"p50 µs": percentile(micros, 0.5), "p99 µs": percentile(micros, 0.99)}, nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// pairs: each caller takes and gives back a lock of its own, again and again.
func pairs(take acquire, s shape) (map[string]float64, error) {
	begin := time.Now().Add(span(s.warm))
	end := begin.Add(span(s.seconds))
	seen := make([][]float64, s.callers)
	err := together(s.callers, func(caller int) error {
		for asked := time.Now(); asked.Before(end); asked = time.Now() {
			give, err := take("peer:go:pair:" + strconv.Itoa(caller))
			if err == nil {
				err = give()
			}
			if err != nil {
				return err
			}
			if done := time.Now(); asked.After(begin) && done.Before(end) {
				seen[caller] = append(seen[caller], micros(done.Sub(asked)))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := slices.Concat(seen...)
	values, err := latencies(all)
	if err == nil {
		values["pairs/s"] = float64(len(all)) / s.seconds
	}
	return values, err
}

// handoff: two parties in turn; the holder releases when the waiter has waited for one of the pauses.
func handoff(take acquire, s shape) (map[string]float64, error) {
	var seen []float64
	give, err := take("peer:go:handoff")
	if err != nil {
		return nil, err
	}
	for _, pause := range s.pauses {
		var released atomic.Int64
		begin := time.Now()
		next := make(chan error, 1)
		var giveNext release
		go func() {
			var err error
			if giveNext, err = take("peer:go:handoff"); err == nil && released.Load() == 0 {
				err = errors.New("two parties held one lock")
			}
			seen = append(seen, micros(time.Since(begin)-time.Duration(released.Load())))
			next <- err
		}()
		time.Sleep(pause)
		released.Store(int64(time.Since(begin)))
		if err := errors.Join(give(), <-next); err != nil {
			return nil, err
		}
		give = giveNext
	}
	if err := give(); err != nil {
		return nil, err
	}
	return latencies(seen)
}

// queueOnce: the time from the release that starts the waiters to the last release, in ms.
func queueOnce(take acquire, s shape) (float64, error) {
	first, err := take("peer:go:queue")
	if err != nil {
		return 0, err
	}
	holders := int32(1)
	done := make(chan error, 1)
	go func() {
		done <- together(s.waiters, func(int) error {
			give, err := take("peer:go:queue")
			if err != nil {
				return err
			}
			if atomic.AddInt32(&holders, 1) != 1 {
				return errors.New("two parties held one lock")
			}
			for end := time.Now().Add(span(s.hold / 1000)); time.Now().Before(end); {
				runtime.Gosched()
			}
			atomic.AddInt32(&holders, -1)
			return give()
		})
	}()
	time.Sleep(queueUp)
	start := time.Now()
	atomic.AddInt32(&holders, -1)
	if err := errors.Join(first(), <-done); err != nil {
		return 0, err
	}
	return micros(time.Since(start)) / 1000, nil
}

func queue(take acquire, s shape) (map[string]float64, error) {
	var millis []float64
	for range s.runs {
		one, err := queueOnce(take, s)
		if err != nil {
			return nil, err
		}
		millis = append(millis, one)
	}
	slices.Sort(millis)
	return map[string]float64{"makespan ms": millis[len(millis)/2], "slowest ms": millis[len(millis)-1]}, nil
}

// together runs work on that many goroutines, and returns their errors.
func together(count int, work func(number int) error) error {
	problems := make([]error, count)
	var all sync.WaitGroup
	for number := range count {
		all.Add(1)
		go func() {
			defer all.Done()
			problems[number] = work(number)
		}()
	}
	all.Wait()
	return errors.Join(problems...)
}

func measure() (map[string]float64, error) {
	var s shape
	system := flag.String("system", "", "redsync, distlock or etcd")
	work := flag.String("work", "", "pairs, handoff or queue")
	store, broker := flag.String("store", "", "Redis' URL, or etcd's address"), flag.String("broker", "", "gRPC target")
	pauses := flag.String("pauses", "", "ms, with commas")
	flag.IntVar(&s.callers, "callers", 1, "")
	flag.IntVar(&s.runs, "runs", 1, "")
	flag.IntVar(&s.waiters, "waiters", 1, "")
	flag.Float64Var(&s.seconds, "seconds", 1, "")
	flag.Float64Var(&s.warm, "warm", 0, "")
	flag.Float64Var(&s.hold, "hold", 1, "ms")
	flag.Parse()
	for _, text := range strings.Split(*pauses, ",") {
		if pause, err := strconv.ParseFloat(text, 64); err == nil {
			s.pauses = append(s.pauses, span(pause/1000))
		}
	}
	var take acquire
	var err error
	switch *system {
	case "redsync":
		take, err = ofRedsync(*store)
	case "distlock":
		take, err = ofDistlock(*broker)
	case "etcd":
		take, err = ofEtcd(*store)
	default:
		err = fmt.Errorf("system %q is not known", *system)
	}
	if err != nil {
		return nil, err
	}
	works := map[string]func(acquire, shape) (map[string]float64, error){
		"pairs": pairs, "handoff": handoff, "queue": queue,
	}
	run, known := works[*work]
	if !known {
		return nil, fmt.Errorf("work %q is not known", *work)
	}
	return run(take, s)
}

func main() {
	values, err := measure()
	answer := map[string]any{"values": values}
	if err != nil {
		answer = map[string]any{"error": err.Error()}
	}
	text, _ := json.Marshal(answer) // numbers and strings
	fmt.Println(string(text))
	if err != nil {
		os.Exit(1)
	}
}
