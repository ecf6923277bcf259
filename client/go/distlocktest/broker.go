// SPDX-License-Identifier: Apache-2.0

// Package distlocktest has a broker inside of a test's process, for programs that take locks. There is no daemon and no
// port; the client is the real one, and so are its errors. Time stands still until the test moves it.
//
//	broker := distlocktest.New()
//	mine, theirs := broker.Client(), broker.Client()
//	lock, err := mine.Lock(ctx, "report", distlock.MaxHold(time.Minute))
//	_, err = theirs.Lock(ctx, "report", distlock.Try()) // a *distlock.BusyError
//	broker.Advance(time.Minute)                         // lock.Err() is a *distlock.LostError now, cause MAX_HOLD
//
// A wait ends by Advance or by a release, so let another goroutine do the waiting, and AwaitWaiting see that it does.
// Locks of every kind, elections, Inspect, List, Watch and CheckToken work as at a broker that serves fairly; detached
// leases and WatchPrefix are refused.
package distlocktest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	distlock "distlock.dev/client/go"
	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/channel"
	"distlock.dev/client/go/internal/inside"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	beat     = time.Second      // heartbeats come as often, so no step of time is longer
	patience = 20 * time.Second // for goroutines of this process
)

var errStopped = status.Error(codes.Unavailable, "the test has stopped the broker")

// missed is a command that has come since Freeze.
type missed struct {
	session *call
	command *pb.SessionCommand
}

// Broker is the broker of one test. Any goroutine may use it, but no callback of a lock.
type Broker struct {
	mu       sync.Mutex
	turn     *sync.Cond
	changes  int // of what sessions have sent, been sent, and seen
	now      time.Duration
	stopped  bool
	frozen   bool
	missed   []missed
	refusing pb.RefusalReason
	locks    locks
	calls    []*call // that are not over
	cores    []inside.Core
}

// New makes one.
func New() *Broker {
	b := &Broker{now: 1 << 50, locks: locks{known: map[name]*lock{}}}
	b.turn = sync.NewCond(&b.mu)
	return b
}

// Client makes a client of this broker. Options are those of distlock.Dial.
func (b *Broker) Client(options ...distlock.DialOption) *distlock.Client {
	given := make([]any, len(options))
	for i, option := range options {
		given[i] = option
	}
	client, core := inside.Dial(func(string) (channel.Conn, error) { return conn{b}, nil }, b.time, given)
	b.mu.Lock()
	b.cores = append(b.cores, core)
	b.mu.Unlock()
	return client.(*distlock.Client)
}

func (b *Broker) time() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// Advance moves time on, and waits until clients have noticed.
func (b *Broker) Advance(d time.Duration) {
	b.Settle()
	for until := b.time() + d; b.time() < until; b.Settle() {
		b.mu.Lock()
		b.now = min(until, b.now+beat, b.locks.nextEnd(b.now))
		if !b.stopped && !b.frozen {
			b.locks.expire(b.now)
			b.serve()
		}
		b.mu.Unlock()
	}
}

// Lose takes the lock from all who hold it, and waits until they have noticed. namespace: "" is the default one. cause:
// one that a broker tells.
func (b *Broker) Lose(namespace, key string, cause distlock.Cause) {
	reason, known := pb.LostReason_value["LOST_REASON_"+string(cause)]
	if !known {
		panic(fmt.Sprintf("distlocktest: no broker tells the cause %s", cause))
	}
	b.mu.Lock()
	for _, holder := range slices.Clone(b.locks.lock(nameOf(&pb.LockSpec{Namespace: namespace, Key: key})).holders) {
		b.locks.end(holder, pb.LostReason(reason), b.now, false)
	}
	b.serve()
	b.mu.Unlock()
	b.Settle()
}

// Refuse has each acquire refused for this reason, such as distlock.ReasonStoreUnavailable. "": not any more.
func (b *Broker) Refuse(reason distlock.Reason) {
	found, known := pb.RefusalReason_value["REFUSAL_REASON_"+string(reason)]
	if !known && reason != "" {
		panic(fmt.Sprintf("distlocktest: no broker refuses for the reason %s", reason))
	}
	b.mu.Lock()
	b.refusing = pb.RefusalReason(found)
	b.mu.Unlock()
}

// Stop takes the broker away: streams break, and calls find nobody, until Start.
func (b *Broker) Stop() {
	b.mu.Lock()
	b.stopped = true
	for _, one := range slices.Clone(b.calls) {
		b.breakOff(one, errStopped)
	}
	b.mu.Unlock()
	b.Settle()
}

// Start is for after Stop. Clients come back when they try again: Advance by 2 s.
func (b *Broker) Start() {
	b.mu.Lock()
	b.stopped = false
	b.mu.Unlock()
}

// Freeze has the broker stand still: clients hear nothing until Thaw. What they hold lapses after Advance by 3 s.
func (b *Broker) Freeze() {
	b.mu.Lock()
	b.frozen = true
	b.mu.Unlock()
}

// Thaw is for after Freeze: the broker goes on with what has come meanwhile.
func (b *Broker) Thaw() {
	b.mu.Lock()
	due := b.missed
	b.frozen, b.missed = false, nil
	for _, one := range due {
		if !one.session.over {
			b.obey(one.session, one.command)
		}
	}
	b.locks.expire(b.now)
	b.serve()
	b.mu.Unlock()
	b.Settle()
}

// AwaitWaiting waits until so many wait for the lock, in other goroutines: Advance then moves their waits. namespace:
// "" is the default one. It panics after 20 s.
func (b *Broker) AwaitWaiting(namespace, key string, count int) {
	wanted := nameOf(&pb.LockSpec{Namespace: namespace, Key: key})
	b.await(fmt.Sprintf("%d waiting for %q", count, wanted), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return int(b.locks.info(wanted, b.now).QueueLength) >= count
	})
}

// Settle waits until each client has told all, has heard all, and has called back. Lock.Close does not wait: call this
// before another client tries to take the lock. It panics when clients do not rest within 20 s.
func (b *Broker) Settle() {
	b.await("the rest of all clients", func() bool {
		before, _ := b.rest()
		b.mu.Lock()
		cores := slices.Clone(b.cores)
		b.mu.Unlock()
		for _, core := range cores {
			core.Turn()
		}
		between, rests := b.rest()
		for _, core := range cores {
			rests = rests && core.Idle()
		}
		after, _ := b.rest()
		return rests && before == after && between == after
	})
}

func (b *Broker) await(what string, is func() bool) {
	for deadline := time.Now().Add(patience); !is(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("distlocktest: %s did not come within %v", what, patience))
		}
	}
}

// rest tells whether all sessions have seen what there was, and after which change.
func (b *Broker) rest() (changes int, rests bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes, !slices.ContainsFunc(b.calls, func(one *call) bool { return !one.waits || len(one.outbox) > 0 })
}

// All below is called under the mutex.

func (b *Broker) changed() {
	b.changes++
	b.turn.Broadcast()
}

func (b *Broker) open(made *call) error {
	switch {
	case b.stopped:
		return errStopped
	case made.method != "Session" && made.method != "WatchLock":
		return status.Errorf(codes.Unimplemented, "distlocktest has no %s", made.method)
	}
	b.calls = append(b.calls, made)
	b.changed()
	return nil
}

func (b *Broker) end(one *call, err error) {
	one.over, one.err = true, err
	one.stop()
	b.calls = slices.DeleteFunc(b.calls, func(other *call) bool { return other == one })
	b.changed()
}

// breakOff ends a call without a goodbye.
func (b *Broker) breakOff(one *call, err error) {
	if one.over {
		return
	}
	b.end(one, err)
	b.locks.part(one, b.now)
	b.locks.expire(b.now)
	b.serve()
}

// serve grants what can be granted, and tells those who watch.
func (b *Broker) serve() {
	b.locks.serve(b.now)
	for _, one := range b.calls {
		if one.watched.key == "" {
			continue
		}
		if state := b.locks.info(one.watched, b.now); !proto.Equal(one.last, state) {
			one.last = state
			one.put(&pb.WatchLockResponse{Lock: state})
		}
	}
}

// obey does what a session's command says.
func (b *Broker) obey(s *call, command *pb.SessionCommand) {
	if b.frozen {
		b.missed = append(b.missed, missed{s, command})
		return
	}
	id := command.Id
	switch asked := command.Command.(type) {
	case *pb.SessionCommand_Open:
		s.say(&pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Opened{Opened: &pb.SessionOpened{
			SessionId: "test", BrokerId: "test", MaxMessageBytes: 1 << 20, MaxLeases: 100_000, MaxUnanswered: 4096,
			Features: []string{"permit", "adopt"}, Validity: durationpb.New(validity),
			HeartbeatInterval: durationpb.New(beat)}}})
	case *pb.SessionCommand_Heartbeat:
		b.onHeartbeat(s, asked.Heartbeat.Seq)
	case *pb.SessionCommand_Acquire:
		wanted := newRequest(s, id, asked.Acquire, b.now)
		if b.refusing != 0 {
			b.locks.refuse(wanted, b.refusing, "as the test says", b.now)
			return
		}
		place := b.locks.join(wanted)
		b.locks.serve(b.now)
		b.locks.keepWaiting(wanted, place, b.now)
	case *pb.SessionCommand_Cancel:
		b.locks.cancel(s, asked.Cancel.AcquireId, b.now)
	case *pb.SessionCommand_Release:
		outcome := b.locks.release(s, asked.Release, b.now)
		s.say(&pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Released{Released: &pb.LeaseReleased{Outcome: outcome}}})
	case *pb.SessionCommand_Downgrade:
		if !b.locks.downgrade(s, asked.Downgrade.AcquireId) {
			refuseCommand(s, id)
			break
		}
		s.say(&pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Downgraded{Downgraded: &pb.LeaseDowngraded{}}})
	case *pb.SessionCommand_Adopt:
		if !b.locks.adopt(s, id, asked.Adopt) {
			refuseCommand(s, id)
		}
	case *pb.SessionCommand_Goodbye:
		b.locks.leave(s, b.now)
		b.end(s, nil)
	}
	b.serve()
}

func refuseCommand(s *call, id int64) {
	s.say(&pb.SessionEvent{Id: id, Event: &pb.SessionEvent_Refused{Refused: &pb.Refusal{
		Reason: pb.RefusalReason_REFUSAL_REASON_NOT_HOLDER, Message: "it is not held"}}})
}

func (b *Broker) onHeartbeat(s *call, seq int64) {
	s.heard, s.heardAt = seq, b.now
	ack := &pb.HeartbeatAck{Seq: seq, ValidFor: durationpb.New(validity)}
	for _, one := range b.locks.of(s) {
		if one.endsAt < b.now+validity {
			ack.Limits = append(ack.Limits, &pb.LeaseLimit{
				AcquireId: one.id, ValidFor: durationpb.New(one.endsAt - b.now)})
		}
	}
	s.say(&pb.SessionEvent{Event: &pb.SessionEvent_HeartbeatAck{HeartbeatAck: ack}})
}

// answer is that of a unary call.
func (b *Broker) answer(method string, asked any) (proto.Message, error) {
	if b.stopped {
		return nil, errStopped
	}
	switch asked := asked.(type) {
	case *pb.GetLockRequest:
		return &pb.GetLockResponse{Lock: b.locks.info(nameOf(asked), b.now)}, nil
	case *pb.ListLocksRequest:
		response := &pb.ListLocksResponse{}
		for _, one := range b.locks.held(func(*lease) bool { return true }) {
			at := one.name()
			namespace := nameOf(&pb.LockSpec{Namespace: asked.Namespace}).namespace
			listed := slices.ContainsFunc(response.Locks, func(other *pb.LockInfo) bool { return nameOf(other) == at })
			if !listed && (namespace == "-" || namespace == at.namespace) && strings.HasPrefix(at.key, asked.KeyPrefix) {
				response.Locks = append(response.Locks, b.locks.info(at, b.now))
			}
		}
		return response, nil
	case *pb.CheckTokenRequest:
		return &pb.CheckTokenResponse{Newest: asked.FencingToken >= b.locks.lock(nameOf(asked)).token}, nil
	}
	return nil, status.Errorf(codes.Unimplemented, "distlocktest has no %s", method)
}
