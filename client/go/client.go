// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"distlock.dev/client/go/internal/channel"
	"distlock.dev/client/go/internal/clock"
	"google.golang.org/grpc"
)

const labelBytes = 256

// Client is a connection to the lock brokers: one session for all locks of the process. It connects at its first call
// and reconnects by itself. Any goroutine may call it.
type Client struct{ core *core }

// settings are what Dial was told.
type settings struct {
	address          string
	label            string
	unreachableAfter time.Duration
	defaults         []Option
	observer         Observer
	onDraining       func(timeLeft time.Duration)
	grpcOptions      []grpc.DialOption
	outlived         bool
}

// DialOption is a setting of a client.
type DialOption func(*settings)

// WithLabel names the program in ListSessions: up to 256 bytes. Without it the name of the executable.
func WithLabel(label string) DialOption { return func(s *settings) { s.label = label } }

// WithDefaults has options that come before those of each lock.
func WithDefaults(options ...Option) DialOption {
	return func(s *settings) { s.defaults = append(s.defaults, options...) }
}

// WithUnreachableAfter is how long a request looks for a broker before it is refused as ReasonUnreachable. Without it
// one try 1 s, a wait with an end all of it, another one 10 s.
func WithUnreachableAfter(d time.Duration) DialOption {
	return func(s *settings) { s.unreachableAfter = d }
}

// WithoutProcessEnd is for a program whose locks another process acts under. Without it, by a unix socket and on Linux
// 6.9, locks are free at once when this process has ended, however it did; with it, after the last promise has passed,
// which takes up to 3 s.
func WithoutProcessEnd() DialOption { return func(s *settings) { s.outlived = true } }

// WithObserver has hooks for tracing and metrics.
func WithObserver(observer Observer) DialOption { return func(s *settings) { s.observer = observer } }

// OnDraining has f called when the broker goes down and locks cannot move to another one: they are lost after timeLeft.
func OnDraining(f func(timeLeft time.Duration)) DialOption {
	return func(s *settings) { s.onDraining = f }
}

// WithGRPC adds options of gRPC, such as credentials or interceptors. They override this package's own, which follow
// the contract: leave keepalive, retries and message sizes as they are.
func WithGRPC(options ...grpc.DialOption) DialOption {
	return func(s *settings) { s.grpcOptions = append(s.grpcOptions, options...) }
}

var warnOfClock = sync.OnceFunc(func() {
	slog.Warn("distlock: this system has no clock that is known to count suspend: when the wall clock jumps by more " +
		"than a second, all locks count as lost")
})

// Dial makes a client. It does not wait for the connection; the first call makes it. Make one client for a process, and
// Close it at the end; one that nothing refers to any more, nor to a lock of it, is closed by itself.
//
// address: brokers of one store, separated by commas, each unix:///path, host:port, tls://host:port, or ipv4: or ipv6:
// with the host's number. One is used, in a random order; when it cannot be reached or goes down, the next one. "":
// DISTLOCK_SERVER, else unix:///run/distlock/distlock.sock where that socket exists, else 127.0.0.1:7420.
//
// The error is about an address or another setting that can never work.
func Dial(address string, options ...DialOption) (*Client, error) {
	made := settings{observer: NopObserver{}, label: filepath.Base(os.Args[0])}
	for _, option := range options {
		option(&made)
	}
	if made.address = address; address == "" {
		made.address = channel.DefaultAddress()
	}
	if len(made.label) > labelBytes {
		made.label = made.label[:labelBytes]
	}
	made.label = strings.ToValidUTF8(made.label, "")
	targets, err := channel.Split(made.address)
	if err != nil {
		return nil, err
	}
	if err := channel.CheckToken(targets); err != nil {
		return nil, err
	}
	for _, target := range targets {
		conn, err := channel.Open(target, made.grpcOptions) // does not connect
		if err != nil {
			return nil, err
		}
		_ = conn.Close()
	}
	if !clock.CountsSuspend {
		warnOfClock()
	}
	if made.observer != (NopObserver{}) {
		made.observer = guarded{made.observer}
	}
	client := &Client{newCore(made, targets)}
	runtime.SetFinalizer(client, func(client *Client) { go client.core.close() }) // no finalizer may wait
	return client, nil
}

// Close gives all locks back, and waits at most a second for the answer. Calls that wait return ErrClosed.
func (c *Client) Close() error {
	runtime.SetFinalizer(c, nil)
	c.core.close()
	return nil
}

// Connected tells whether a session is open at this moment.
func (c *Client) Connected() bool {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	return c.core.table.Link().Opened
}
