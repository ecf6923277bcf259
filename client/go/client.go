// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"distlock.dev/client/go/internal/channel"
	"distlock.dev/client/go/internal/clock"
	"distlock.dev/client/go/internal/process"
	"google.golang.org/grpc"
)

// Client is a connection to the lock brokers: one session for all locks of the process. It connects at its first call
// and reconnects by itself. Any goroutine may call it.
type Client struct {
	_    noCopy
	core *core
}

// settings are what Dial was told.
type settings struct {
	address          string
	label            string
	unreachableAfter time.Duration
	defaults         []Option
	observer         Observer
	onDraining       func(timeLeft time.Duration)
	outlived         bool
	access           channel.Access
	open             func(address string) (channel.Conn, error) // makes a connection, and does not connect
	now              func() time.Duration                       // of clock.Now
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

// WithTLS is for tls:// addresses of this client, instead of the files that DISTLOCK_TLS_CA and the like name.
func WithTLS(config *tls.Config) DialOption { return func(s *settings) { s.access.TLS = config } }

// WithToken shows this bearer token to brokers, instead of that in the file that DISTLOCK_TOKEN_FILE names. The
// token goes over TLS, unix sockets and loopback only.
func WithToken(token string) DialOption { return func(s *settings) { s.access.Token = token } }

// WithTokenFile names the file of the bearer token, as DISTLOCK_TOKEN_FILE does. Each call and heartbeat reads it anew.
func WithTokenFile(path string) DialOption { return func(s *settings) { s.access.TokenFile = path } }

// WithGRPC adds options of gRPC, such as credentials or interceptors. They override this package's own, which follow
// the contract: leave keepalive, retries and message sizes as they are.
func WithGRPC(options ...grpc.DialOption) DialOption {
	return func(s *settings) { s.access.Options = append(s.access.Options, options...) }
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
	made := settingsOf(options)
	if made.address = address; address == "" {
		made.address = channel.DefaultAddress()
	}
	targets, err := channel.Split(made.address)
	if err != nil {
		return nil, err
	}
	if err := made.access.CheckToken(targets); err != nil {
		return nil, err
	}
	made.open, made.now = made.access.Open, clock.Now
	for _, target := range targets {
		conn, err := made.open(target)
		if err != nil {
			return nil, err
		}
		_ = conn.Close()
	}
	if !clock.CountsSuspend {
		warnOfClock()
	}
	return newClient(made, targets), nil
}

func settingsOf(options []DialOption) settings {
	made := settings{observer: NopObserver{}, label: filepath.Base(os.Args[0])}
	for _, option := range options {
		option(&made)
	}
	made.label = process.Cut(made.label)
	if made.observer != (NopObserver{}) {
		made.observer = guarded{made.observer}
	}
	return made
}

func newClient(settings settings, targets []string) *Client {
	client := &Client{core: newCore(settings, targets)}
	runtime.SetFinalizer(client, func(client *Client) { go client.core.close() }) // no finalizer may wait
	return client
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

// Stats is what a client has at one moment. Detached leases do not count.
type Stats struct {
	Held    int // locks that are held
	Waiting int // locks that are asked for, and not granted yet
	AtRisk  int // of the held ones, those of which Lock.AtRisk is true
}

// Stats counts the locks of this client, for metrics and shutdowns.
func (c *Client) Stats() Stats {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	held, waiting, atRisk := c.core.table.Count(c.core.now())
	return Stats{held, waiting, atRisk}
}

// Drained waits until this client holds nothing and waits for nothing, and brokers have confirmed what it gave back.
// For a shutdown that lets the work end, before Close. The error is that of ctx.
func (c *Client) Drained(ctx context.Context) error {
	defer runtime.KeepAlive(c)
	select {
	case <-c.core.drained():
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}
