// SPDX-License-Identifier: Apache-2.0

package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/distlocktest"
)

// save takes what it needs: a client in the program, one of distlocktest in a test.
func save(ctx context.Context, locks distlock.Provider) error {
	return locks.Do(ctx, "report", func(_ context.Context, token int64) error {
		fmt.Println("saved under token", token)
		return nil
	}, distlock.Try())
}

func ExampleProvider() {
	broker := distlocktest.New()
	mine, theirs := broker.Client(), broker.Client(distlock.WithDefaults(distlock.Owner("host 7")))
	fmt.Println(save(context.Background(), mine))
	broker.Settle() // the release has arrived
	held, _ := theirs.Lock(context.Background(), "report")
	defer held.Close()
	var busy *distlock.BusyError
	fmt.Println(errors.As(save(context.Background(), mine), &busy), busy.Holders[0].Owner)
	// Output:
	// saved under token 1
	// <nil>
	// true host 7
}

func ExampleClient_Stats() {
	broker := distlocktest.New()
	dl, other := broker.Client(), broker.Client()
	one, _ := dl.Lock(context.Background(), "a")
	two, _ := other.Lock(context.Background(), "b")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := dl.Lock(context.Background(), "b", distlock.Wait(time.Minute))
		fmt.Println(err != nil)
	}()
	broker.AwaitWaiting("", "b", 1)
	fmt.Printf("%+v\n", dl.Stats())
	broker.Freeze()
	broker.Advance(2 * time.Second) // a heartbeat stays without an answer
	fmt.Printf("%+v\n", dl.Stats())
	broker.Thaw()
	broker.Advance(time.Minute)
	<-done
	fmt.Printf("%+v\n", dl.Stats())
	_, _ = one.Close(), two.Close()
	// Output:
	// {Held:1 Waiting:1 AtRisk:0}
	// {Held:1 Waiting:1 AtRisk:1}
	// true
	// {Held:1 Waiting:0 AtRisk:0}
}

func ExampleClient_Drained() {
	dl := distlocktest.New().Client()
	held, _ := dl.Lock(context.Background(), "job")
	soon, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println(errors.Is(dl.Drained(soon), context.DeadlineExceeded))
	_ = held.Close()
	fmt.Println(dl.Drained(context.Background())) // the release is confirmed
	_ = dl.Close()
	// Output:
	// true
	// <nil>
}

// exporter is an Observer whose backend is down.
type exporter struct{ distlock.NopObserver }

func (exporter) Answered(context.Context, error, time.Duration) { panic("no route to the collector") }

func ExampleWithObserver() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // where the panic is told of
	dl := distlocktest.New().Client(distlock.WithObserver(exporter{}))
	held, err := dl.Lock(context.Background(), "job")
	fmt.Println(held.Valid(), err)
	fmt.Println(held.Release(context.Background()))
	// Output:
	// true <nil>
	// RELEASED <nil>
}
