// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/channel"
	"distlock.dev/client/go/internal/locktable"
	"distlock.dev/client/go/internal/process"
)

const (
	reconnectInitial = 20 * time.Millisecond
	reconnectMax     = 2 * time.Second
	connectTimeout   = 5 * time.Second
	pauseWhileMoving = 200 * time.Millisecond // leases wait for a session, and their last promises run out
	closePatience    = time.Second
	longestSleep     = time.Hour
)

// core is the inside of a client: the lock table under one mutex, its streams, and the goroutine that wakes for
// deadlines, heartbeats and reconnects. Each call changes the table under the mutex, then runs the effects.
//
//  1. The mutex is never held across a gRPC operation or an effect.
//  2. Commands that gather while a message is being written leave in the next one, together.
//  3. Nothing of the program runs under the mutex. Its callbacks have a goroutine of their own, so that one that blocks
//     costs no lock; a handle or client that it drops is given back by a goroutine that a finalizer starts.
type core struct {
	settings
	addresses *channel.Addresses

	mu            sync.Mutex
	table         *locktable.Table
	streams       [2]*stream // by the index of their links
	present       int        // the link that new streams are for
	reconnectAt   time.Duration
	bound         time.Duration // of the pause before the next reconnect
	armed         time.Duration // when the timer wakes
	started       bool
	closing       bool
	wake          chan struct{} // has the timer look again
	callbacks     callbacks
	empty         []chan struct{} // each is closed when there is nothing left, for Client.Drained
	lookup        channel.Conn    // for calls that are no session
	lookupAddress string
}

func newCore(settings settings, targets []string) *core {
	c := &core{
		settings: settings, addresses: channel.NewAddresses(targets), bound: reconnectInitial,
		wake: make(chan struct{}, 1)}
	config := locktable.Config{
		Address: settings.address, Brokers: len(targets), Label: settings.label,
		UnreachableAfter: settings.unreachableAfter, ConnectTimeout: connectTimeout}
	if settings.onDraining != nil {
		config.OnDraining = func(left time.Duration) { c.callbacks.run(func() { settings.onDraining(left) }) }
	}
	c.table = locktable.New(config)
	return c
}

// claim is nil when locks are not to end with this process.
func (c *core) claim(address string) *pb.ProcessClaim {
	if c.outlived {
		return nil
	}
	return process.Claim(address)
}

// do calls one method of the table under the mutex, has the streams send what it leads to, and runs its effects.
func (c *core) do(call func(now time.Duration, fx *locktable.Effects)) {
	var fx locktable.Effects
	c.mu.Lock()
	call(c.now(), &fx)
	c.flush()
	c.mu.Unlock()
	fx.Run()
}

// acquire takes all of specs or none, one for each of held, and waits for the answer.
func (c *core) acquire(ctx context.Context, held []holding, specs []*pb.LockSpec, wait time.Duration,
	onQueued func(*pb.AcquireQueued)) error {
	answer := make(chan *locktable.Refusal, 1)
	var request *locktable.Request
	c.do(func(now time.Duration, fx *locktable.Effects) {
		c.start()
		request = c.table.Acquire(specs, wait, func(refusal *locktable.Refusal) { answer <- refusal }, onQueued, now, fx)
		for i := range held {
			held[i].lease = request.Leases[i]
			held[i].lease.OnEnd = held[i].lost
		}
	})
	select {
	case refusal := <-answer:
		if refusal != nil {
			return refusedError(refusal)
		}
		return nil
	case <-ctx.Done():
		c.giveUp(request)
		return ended(ctx)
	}
}

// ended is the error of a call whose context has ended.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if err := ctx.Err(); cause != err {
		return fmt.Errorf("distlock: %w: %w", err, cause)
	}
	return fmt.Errorf("distlock: %w", cause)
}

// giveUp withdraws a request, also when it is granted at this moment.
func (c *core) giveUp(request *locktable.Request) {
	c.do(func(now time.Duration, fx *locktable.Effects) {
		if !request.Answered() {
			c.table.Cancel(request, fx)
			return
		}
		for _, lease := range request.Leases {
			lease.OnEnd = nil
			c.table.Release(lease, nil, now, fx)
		}
	})
}

// held compares the deadline with the clock, at this moment.
func (c *core) held(lease *locktable.Lease) bool {
	if lease.Phase() != locktable.Held || c.now() < lease.Deadline() {
		return lease.Phase() == locktable.Held
	}
	held := false
	// Under the mutex, so that an ack of this moment cannot extend a lease that is reported as lost.
	c.do(func(now time.Duration, fx *locktable.Effects) { held = c.table.Notice(lease, now, fx) })
	return held
}

// close gives all back, and waits up to a second for the broker's answer.
func (c *core) close() {
	var open []*stream
	var lookup channel.Conn
	c.do(func(now time.Duration, fx *locktable.Effects) {
		if c.closing {
			return
		}
		c.closing = true
		c.table.Close(now, fx)
		for _, stream := range c.streams {
			if stream == nil {
				continue
			}
			if open = append(open, stream); !stream.link.Opened {
				stream.cancel() // one that has not even answered the opening holds nothing
			}
		}
		lookup, c.lookup = c.lookup, nil
		notify(c.wake)
	})
	patience, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for _, stream := range open {
		select {
		case <-stream.ended:
		case <-patience.Done():
		}
		stream.cancel()
		<-stream.ended
	}
	if lookup != nil {
		_ = lookup.Close()
	}
}

// drained is closed when the table has nothing left.
func (c *core) drained() chan struct{} {
	empty := make(chan struct{})
	c.do(func(time.Duration, *locktable.Effects) { c.empty = append(c.empty, empty) })
	return empty
}

// The rest is called under the mutex, except where it says otherwise.

// start begins with the first request.
func (c *core) start() {
	if !c.started && !c.closing {
		c.started = true
		c.armed = locktable.Never
		go c.run()
	}
}

// flush has the streams send, and the timer wake in time.
func (c *core) flush() {
	for _, stream := range c.streams {
		if stream != nil && c.table.Ready(stream.link) {
			notify(stream.more)
		}
	}
	if len(c.empty) > 0 && c.table.Drained() {
		for _, empty := range c.empty {
			close(empty)
		}
		c.empty = nil
	}
	c.arm()
}

func notify(waits chan struct{}) {
	select {
	case waits <- struct{}{}:
	default:
	}
}

func (c *core) arm() {
	if c.due() < c.armed || c.table.Present != c.present {
		c.armed = 0
		notify(c.wake)
	}
}

// due is when the timer has something to do.
func (c *core) due() time.Duration {
	due := c.table.Wake()
	if c.streams[c.present] == nil && !c.closing {
		due = min(due, c.reconnectAt)
	}
	return due
}

// breakOff tells the table that a stream has ended, or must end.
func (c *core) breakOff(s *stream, cause, why string, failure *locktable.Refusal, now time.Duration,
	fx *locktable.Effects) {
	if s.over {
		return
	}
	s.over = true
	notify(s.more)
	c.table.OnBroken(s.link, cause, why, failure, now, fx)
	c.streams[s.index] = nil
	if s.index == c.present {
		c.planReconnect(failure, now)
	}
}

func (c *core) planReconnect(failure *locktable.Refusal, now time.Duration) {
	c.reconnectAt = 0
	another := failure == nil || failure.Reason == locktable.Unreachable || failure.Reason == string(ReasonDraining)
	if c.addresses.Next() && another {
		return
	}
	pause := rand.N(c.bound)
	if failure != nil {
		pause += min(max(failure.Wire.RetryAfter.AsDuration(), 0), reconnectMax)
	}
	c.bound = min(2*c.bound, reconnectMax)
	if c.table.Moving() {
		pause = min(pause, pauseWhileMoving)
	}
	c.reconnectAt = now + pause
}

// run is the timer's goroutine; it takes the mutex itself.
func (c *core) run() {
	timer := time.NewTimer(longestSleep)
	defer timer.Stop()
	for {
		pause, closing := c.turn()
		if closing {
			return
		}
		if pause <= 0 {
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-c.wake:
		}
	}
}

// turn does what is due, and tells when something will be. It takes the mutex itself.
func (c *core) turn() (pause time.Duration, closing bool) {
	c.mu.Lock()
	if !c.started {
		c.mu.Unlock()
		return longestSleep, false
	}
	now := c.now()
	var fx locktable.Effects
	c.endLapsed(now, &fx)
	c.table.Tick(now, &fx)
	if c.table.Present != c.present { // go on with the next broker, at once
		c.present = c.table.Present
		c.addresses.Next()
		c.reconnectAt = 0
	}
	if c.streams[c.present] == nil && now >= c.reconnectAt && !c.closing {
		stream := newStream(c, c.present)
		c.streams[c.present] = stream
		c.table.Start(now, c.claim(stream.address), &fx)
		go stream.run()
	}
	c.armed = 0 // flush need not signal: the due time is read below
	c.flush()
	c.armed = c.due()
	pause, closing = min(c.armed-c.now(), longestSleep), c.closing
	c.mu.Unlock()

	fx.Run()
	return pause, closing
}

func (c *core) endLapsed(now time.Duration, fx *locktable.Effects) {
	for _, stream := range c.streams {
		if stream == nil || !stream.link.Lapsed(now) {
			continue
		}
		why := "no answer to OpenSession within the connect timeout"
		if stream.link.Opened {
			why = "the broker was not heard for the whole validity"
		}
		c.breakOff(stream, locktable.CauseLapsed, why, nil, now, fx)
		*fx = append(*fx, stream.cancel)
	}
}
