// SPDX-License-Identifier: Apache-2.0

// A small service that several hosts run at once: POST /transfer?from=7&to=9&amount=5.
//
// Each transfer holds both accounts, whichever host serves it. One of the hosts, the leader, writes a report each
// minute.
//
//	DISTLOCK_SERVER=10.0.0.1:7420,10.0.0.2:7420 go run ./examples/service 127.0.0.1:8080
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	distlock "distlock.dev/client/go"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	dl, err := distlock.Dial("", distlock.WithDefaults(distlock.Owner(host)))
	if err != nil {
		return err
	}
	defer dl.Close() // gives back what is left, so that other hosts need not wait
	address := "127.0.0.1:8080"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var reports sync.WaitGroup
	reports.Add(1)
	go func() {
		defer reports.Done()
		writeReports(ctx, dl, host)
	}()
	defer reports.Wait()

	http.HandleFunc("POST /transfer", func(w http.ResponseWriter, r *http.Request) { transfer(dl, w, r) })
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.Background()) })
	fmt.Println("serving on", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func transfer(dl *distlock.Client, w http.ResponseWriter, r *http.Request) {
	accounts := distlock.Keys("account/"+r.FormValue("from"), "account/"+r.FormValue("to"))
	both, err := dl.LockAll(r.Context(), accounts, distlock.Wait(2*time.Second))
	var busy *distlock.BusyError
	switch {
	case errors.As(err, &busy):
		http.Error(w, busy.Error(), http.StatusConflict)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer both.Close()
	// The database refuses a write whose token is smaller than one that it has seen for the account.
	text := fmt.Sprintf("moved %s under the tokens %d\n", r.FormValue("amount"), both.Tokens())
	if err := both.Err(); err != nil { // right before the commit
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, text)
}

func writeReports(ctx context.Context, dl *distlock.Client, host string) {
	for ctx.Err() == nil {
		// Resume: the term outlives a restart of the broker.
		term, err := dl.Campaign(ctx, "reports", host, distlock.Resume())
		if err != nil {
			log.Print("no leader: ", err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		for every := time.Tick(time.Minute); term.Context().Err() == nil; {
			fmt.Printf("the report of %s, term %d\n", host, term.Token())
			select {
			case <-every:
			case <-term.Context().Done():
			}
		}
		log.Print("no longer the leader: ", context.Cause(term.Context()))
		_ = term.Close()
	}
}
