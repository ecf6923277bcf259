// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/channel"
	"distlock.dev/client/go/internal/locktable"
	"google.golang.org/grpc"
)

// stream is one Session call, on a connection of its own: a goroutine that reads, and one that writes.
type stream struct {
	core    *core
	index   int
	link    *locktable.Link
	address string
	more    chan struct{} // wakes the writer
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{}
	over    bool        // the table has heard of its end; guarded by core.mu, as is the next one
	writing bool        // a message is being sent
	shown   string      // the authorization that the broker was shown last; of one look at a time
	looking atomic.Bool // whether there is another one
}

func newStream(c *core, index int) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	return &stream{
		core: c, index: index, link: c.table.Links[index], address: c.addresses.Present(), ctx: ctx, cancel: cancel,
		more: make(chan struct{}, 1), ended: make(chan struct{})}
}

// run reads until the call ends.
func (s *stream) run() {
	defer close(s.ended)
	defer s.cancel()
	conn, err := s.core.open(s.address)
	if err == nil {
		err = s.read(conn)
		_ = conn.Close()
	}
	var failure *locktable.Refusal
	if !errors.Is(err, io.EOF) {
		failure = channel.Refusal(err)
	}
	s.core.onStreamEnd(s, failure)
}

func (s *stream) read(conn channel.Conn) error {
	call, err := pb.NewLockServiceClient(conn).Session(channel.Noting(s.ctx, &s.shown), channel.SessionCodec())
	if err != nil {
		return err
	}
	go s.write(call)
	for {
		response, err := call.Recv()
		if err != nil {
			return err
		}
		s.core.onResponse(s, response)
	}
}

// write sends what the table has for this stream. It never half-closes, which would count as a break: after the goodbye
// the broker ends the call.
func (s *stream) write(call grpc.BidiStreamingClient[pb.SessionRequest, pb.SessionResponse]) {
	for {
		runtime.Gosched() // lets callers add what they have to say
		message, isLast := s.next()
		if message != nil && call.Send(message) != nil {
			return // the reader has the status
		}
		if isLast {
			return
		}
		if message == nil {
			select {
			case <-s.more:
			case <-s.ctx.Done():
				return
			}
		}
	}
}

func (s *stream) next() (message *pb.SessionRequest, isLast bool) {
	c := s.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over {
		return nil, true
	}
	message = s.link.Pack(c.now())
	if s.link.Authenticates && len(message.GetCommands()) > 0 && message.Commands[0].GetHeartbeat() != nil {
		go s.showAnew()
	}
	s.writing = message != nil
	c.arm()
	return message, s.link.Said()
}

// showAnew brings a token that has changed to the session. The file may be slow to read: no heartbeat waits for it.
func (s *stream) showAnew() {
	if !s.looking.CompareAndSwap(false, true) {
		return
	}
	defer s.looking.Store(false)
	authorization := s.core.access.Authorization(s.address)
	if authorization == "" {
		return
	}
	s.core.do(func(time.Duration, *locktable.Effects) {
		if s.over || authorization == s.shown { // over: the link is another session's
			return
		}
		s.shown = authorization
		s.core.table.Authenticate(s.link, authorization, func() { s.shown = "" }) // brought again with a later heartbeat
	})
}

func (c *core) onResponse(s *stream, response *pb.SessionResponse) {
	var fx locktable.Effects
	c.mu.Lock()
	if s.over {
		c.mu.Unlock()
		return
	}
	now, wasOpen := c.now(), s.link.Opened
	for _, event := range response.Events {
		c.table.OnEvent(s.link, event, now, &fx)
	}
	if s.link == c.table.Link() && s.link.Acked() {
		c.bound = reconnectInitial
		c.addresses.Succeed()
	}
	if !wasOpen && s.link.Opened {
		c.lookupAddress = s.address
		fx = append(fx, func() { c.observer.Session(s.address, true, nil) })
	}
	c.flush()
	c.mu.Unlock()
	fx.Run()
}

func (c *core) onStreamEnd(s *stream, failure *locktable.Refusal) {
	var err error
	cause, why := locktable.CauseDisconnected, "the stream to the broker ended"
	if failure != nil {
		why += ": " + failure.Wire.Message
		if failure.Reason == string(ReasonLeaseLost) {
			cause = locktable.CauseLapsed
		}
		err = refusedError(failure)
	}
	var fx locktable.Effects
	c.mu.Lock()
	c.breakOff(s, cause, why, failure, c.now(), &fx)
	if c.closing {
		err = nil
	}
	c.flush()
	notify(c.wake)
	c.mu.Unlock()
	fx.Run()
	c.observer.Session(s.address, false, err)
}
