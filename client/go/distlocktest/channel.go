// SPDX-License-Identifier: Apache-2.0

package distlocktest

import (
	"context"
	"io"
	"strings"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// conn is a connection to the broker of the test, within the process.
type conn struct{ broker *Broker }

// Close does nothing: nothing is open.
func (conn) Close() error { return nil }

// Invoke is of grpc.ClientConnInterface: a unary call.
func (c conn) Invoke(_ context.Context, method string, asked, into any, _ ...grpc.CallOption) error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	response, err := c.broker.answer(method[strings.LastIndex(method, "/")+1:], asked)
	if err == nil {
		proto.Merge(into.(proto.Message), response)
	}
	return err
}

// NewStream is of grpc.ClientConnInterface: a session or a watch.
func (c conn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string,
	_ ...grpc.CallOption) (grpc.ClientStream, error) {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	made := &call{broker: b, ctx: ctx, method: method[strings.LastIndex(method, "/")+1:], heardAt: b.now}
	if err := b.open(made); err != nil {
		return nil, err
	}
	made.stop = context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.breakOff(made, status.FromContextError(ctx.Err()).Err())
	})
	return made, nil
}

// call is a session or a watch. Its fields are guarded by Broker.mu.
type call struct {
	broker  *Broker
	ctx     context.Context
	stop    func() bool
	method  string
	watched name
	last    proto.Message // what a watch has told
	outbox  []proto.Message
	waits   bool // the client has seen all that there was
	over    bool // no more follows
	err     error
	heard   int64 // the newest heartbeat
	heardAt time.Duration
}

func (c *call) put(message proto.Message) {
	c.outbox = append(c.outbox, message)
	c.broker.changed()
}

func (c *call) say(event *pb.SessionEvent) {
	c.put(&pb.SessionResponse{Events: []*pb.SessionEvent{event}})
}

// SendMsg is of grpc.ClientStream.
func (c *call) SendMsg(message any) error {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.over {
		return io.EOF
	}
	b.changed()
	switch asked := proto.Clone(message.(proto.Message)).(type) {
	case *pb.SessionRequest:
		for _, command := range asked.Commands {
			if !c.over {
				b.obey(c, command)
			}
		}
	case *pb.WatchLockRequest:
		c.watched = nameOf(asked)
		b.serve()
	}
	return nil
}

// RecvMsg is of grpc.ClientStream.
func (c *call) RecvMsg(into any) error {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	for c.waits = true; len(c.outbox) == 0 && !c.over; {
		b.turn.Wait()
	}
	c.waits = false
	b.changed()
	if len(c.outbox) > 0 {
		proto.Merge(into.(proto.Message), c.outbox[0])
		c.outbox = c.outbox[1:]
		return nil
	}
	if c.err == nil {
		return io.EOF
	}
	return c.err
}

// Header is of grpc.ClientStream.
func (*call) Header() (metadata.MD, error) { return nil, nil }

// Trailer is of grpc.ClientStream.
func (*call) Trailer() metadata.MD { return nil }

// CloseSend is of grpc.ClientStream.
func (*call) CloseSend() error { return nil }

// Context is of grpc.ClientStream.
func (c *call) Context() context.Context { return c.ctx }
