// SPDX-License-Identifier: Apache-2.0

// Package fakebroker is a broker in the test's process that grants everything, and misbehaves on command. Only tests
// may import it.
package fakebroker

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// Validity of the sessions of a fake broker.
	Validity = 3 * time.Second
	patience = 20 * time.Second
)

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come true within %v", what, patience)
		}
	}
}

// Broker is the fake. Set what it does before the client connects, or under Do.
type Broker struct {
	Address   string // for Dial
	OnAcquire func(*Session, *pb.SessionCommand)
	OnAdopt   func(*Session, *pb.SessionCommand)
	Features  []string
	MaxBytes  int32
	Refuse    error // sessions end with this status, if it is set
	OnUnary   map[string]func(context.Context, any) (any, error)
	Frozen    atomic.Bool // reads commands, and answers none

	t        testing.TB
	path     string
	mu       sync.Mutex
	sessions []*Session
	server   *grpc.Server
	tokens   atomic.Int64
	leases   atomic.Int64
}

// New starts one on a socket of its own, until the end of the test.
func New(t testing.TB) *Broker {
	t.Helper()
	folder, err := os.MkdirTemp("", "dlgo") // short, because the path of a socket must be
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{t: t, path: filepath.Join(folder, "s"), MaxBytes: 64 << 10, Features: []string{"permit", "adopt"},
		OnUnary: map[string]func(context.Context, any) (any, error){}}
	b.Address = "unix://" + b.path
	b.OnAcquire = GrantAll
	b.OnAdopt = func(s *Session, command *pb.SessionCommand) {
		s.Grant(command.Id, command.GetAdopt().Lock.Key, func(grant *pb.Grant) { grant.FencingToken = 1 })
	}
	b.Start()
	t.Cleanup(func() {
		b.Stop()
		_ = os.RemoveAll(folder)
	})
	return b
}

// GrantAll is the usual OnAcquire.
func GrantAll(s *Session, command *pb.SessionCommand) {
	for i, lock := range command.GetAcquire().Locks {
		s.Grant(command.Id+int64(i), lock.Key, nil)
	}
}

// Hold is an OnAcquire that answers nothing.
func Hold(*Session, *pb.SessionCommand) {}

// Start begins to listen, also after Stop.
func (b *Broker) Start() {
	b.t.Helper()
	_ = os.Remove(b.path)
	listener, err := net.Listen("unix", b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	server := grpc.NewServer()
	b.server = server
	pb.RegisterLockServiceServer(server, service{broker: b})
	go func() { _ = server.Serve(listener) }()
}

// Stop breaks all connections, and listens no more.
func (b *Broker) Stop() { b.server.Stop() }

// Do changes what the broker does while clients are connected.
func (b *Broker) Do(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// Sessions is how many there have been.
func (b *Broker) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}

// Session is the number-th session, counted from 1, once it is open.
func (b *Broker) Session(number int) *Session {
	b.t.Helper()
	Eventually(b.t, "the session", func() bool { return b.Sessions() >= number })
	b.mu.Lock()
	found := b.sessions[number-1]
	b.mu.Unlock()
	found.Await("open", 1)
	return found
}

// session serves one call.
func (b *Broker) session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	s := &Session{broker: b, more: make(chan struct{}, 1), Ended: make(chan struct{}), AnswersHeartbeats: true}
	b.mu.Lock()
	refuse := b.Refuse
	if refuse == nil {
		b.sessions = append(b.sessions, s)
	}
	b.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	defer close(s.Ended)
	go s.read(stream)
	for {
		s.mu.Lock()
		events, over, err := s.outbox, s.over, s.end
		s.outbox = nil
		s.mu.Unlock()
		if len(events) > 0 {
			if err := stream.Send(&pb.SessionResponse{Events: events}); err != nil {
				return err
			}
		}
		if over {
			return err
		}
		select {
		case <-s.more:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func unary[Response any](ctx context.Context, b *Broker, name string, request any) (*Response, error) {
	b.mu.Lock()
	answer := b.OnUnary[name]
	b.mu.Unlock()
	if answer == nil {
		return nil, status.Error(codes.Unimplemented, name)
	}
	response, err := answer(ctx, request)
	if err != nil {
		return nil, err
	}
	return response.(*Response), nil
}

// service has the methods of the contract, apart from those that tests use.
type service struct {
	pb.UnimplementedLockServiceServer
	broker *Broker
}

func (s service) Session(stream grpc.BidiStreamingServer[pb.SessionRequest, pb.SessionResponse]) error {
	return s.broker.session(stream)
}

func (s service) Acquire(ctx context.Context, request *pb.AcquireRequest) (*pb.AcquireResponse, error) {
	return unary[pb.AcquireResponse](ctx, s.broker, "Acquire", request)
}

func (s service) Renew(ctx context.Context, request *pb.RenewRequest) (*pb.RenewResponse, error) {
	return unary[pb.RenewResponse](ctx, s.broker, "Renew", request)
}

func (s service) Release(ctx context.Context, request *pb.ReleaseRequest) (*pb.ReleaseResponse, error) {
	return unary[pb.ReleaseResponse](ctx, s.broker, "Release", request)
}

func (s service) GetLock(ctx context.Context, request *pb.GetLockRequest) (*pb.GetLockResponse, error) {
	return unary[pb.GetLockResponse](ctx, s.broker, "GetLock", request)
}

func (s service) WatchLock(request *pb.WatchLockRequest,
	stream grpc.ServerStreamingServer[pb.WatchLockResponse]) error {
	response, err := unary[pb.WatchLockResponse](stream.Context(), s.broker, "WatchLock", request)
	if err != nil {
		return err
	}
	return stream.Send(response) // then it ends
}
