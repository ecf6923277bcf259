// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"runtime"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/channel"
	"distlock.dev/client/go/internal/locktable"
	"google.golang.org/grpc"
)

// patience of a call that does not wait for a lock. noPatience: as long as its context.
const (
	patience   = 5 * time.Second
	noPatience = time.Duration(-1)
)

// channel is the connection for calls that are no session, and its client.
func (c *core) channel() (channel.Conn, pb.LockServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil, nil, ErrClosed
	}
	if c.lookup == nil {
		if c.lookupAddress == "" {
			c.lookupAddress = c.addresses.Present()
		}
		conn, err := c.open(c.lookupAddress)
		if err != nil {
			return nil, nil, err
		}
		c.lookup = conn
	}
	return c.lookup, pb.NewLockServiceClient(c.lookup), nil
}

// nextChannel: that connection's broker did not answer. The next call goes to another one.
func (c *core) nextChannel(failed channel.Conn) {
	c.mu.Lock()
	if c.lookup == failed {
		c.lookupAddress = c.addresses.After(c.lookupAddress)
		c.lookup = nil
	}
	c.mu.Unlock()
	_ = failed.Close()
}

// unary makes one call: once at each broker, and once more, for a connection that was broken unnoticed.
func unary[Request, Response any](ctx context.Context, of *Client, limit time.Duration, request Request,
	method func(pb.LockServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error)) (Response, error) {
	defer runtime.KeepAlive(of)
	var none Response
	c := of.core
	for left := c.addresses.Count(); ; left-- {
		if ctx.Err() != nil {
			return none, ended(ctx)
		}
		conn, client, err := c.channel()
		if err != nil {
			return none, err
		}
		response, err := within(ctx, limit, client, request, method)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return none, ended(ctx)
		}
		refusal := channel.Refusal(err)
		if left == 0 || !unreachable(refusal) {
			return none, refusedError(refusal)
		}
		c.nextChannel(conn)
	}
}

func within[Request, Response any](ctx context.Context, limit time.Duration, client pb.LockServiceClient,
	request Request,
	method func(pb.LockServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error)) (Response, error) {
	if limit == noPatience {
		return method(client, ctx, request)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return method(client, ctx, request)
}

// unreachable tells whether another broker may do.
func unreachable(refusal *locktable.Refusal) bool {
	return refusal.Reason == locktable.Unreachable || refusal.Reason == string(ReasonDraining) ||
		refusal.Reason == string(ReasonCancelled) // another call has closed the connection
}
