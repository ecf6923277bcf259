// SPDX-License-Identifier: Apache-2.0

// Command job runs a job of gocron whose runs are shared by all hosts that start the same command, with a broker at
// DISTLOCK_SERVER.
//
//	job locker|elector [CRONTAB_WITH_SECONDS [LENGTH_OF_A_RUN]]
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
	"distlock.dev/client/go/gocronlock"
	"github.com/go-co-op/gocron/v2"
)

const name = "report"

func main() {
	given := append(os.Args[1:], []string{"locker", "* * * * * *", "10ms"}[min(len(os.Args)-1, 3):]...)
	length, err := time.ParseDuration(given[2])
	check(err)
	dl, err := distlock.Dial("")
	check(err)
	var shared gocron.SchedulerOption
	var held func() *distlock.Lock
	switch given[0] {
	case "locker":
		locker := gocronlock.NewLocker(dl, time.Second, distlock.Wait(time.Second/2)) // a run each two seconds or more
		shared, held = gocron.WithDistributedLocker(locker), func() *distlock.Lock { return locker.Held(name) }
	case "elector":
		elector := gocronlock.NewElector(dl, "scheduler", name)
		defer elector.Close(context.Background()) //nolint:errcheck // the process ends anyway
		shared, held = gocron.WithDistributedElector(elector), elector.Held
	default:
		log.Fatalf("job: %q is neither locker nor elector", given[0])
	}
	scheduler, err := gocron.NewScheduler(shared)
	check(err)
	_, err = scheduler.NewJob(gocron.CronJob(given[1], true), gocron.NewTask(func() { report(held(), length) }),
		gocron.WithName(name))
	check(err)
	scheduler.Start()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	<-ctx.Done()
	check(scheduler.Shutdown())
}

// report is the job. It ends when its lock is lost; the store refuses smaller tokens than it has seen.
func report(held *distlock.Lock, length time.Duration) {
	fmt.Println("run", held.Token(), time.Now().UnixMilli())
	select {
	case <-time.After(length):
		fmt.Println("done", held.Token())
	case <-held.Context().Done():
		fmt.Println("lost", held.Token())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
