// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/locktable"
	"google.golang.org/protobuf/types/known/durationpb"
)

const repeats = 3 // of an acquire whose answer was lost

var errToBeRenewed = errors.New("distlock: the lease is of another process: renew it before use")

// Detached is a lease without a stream: this program renews it, at any broker of the store, before ValidFor is over.
// Its LeaseID may be handed to another process, which takes it up with Client.Detached. Any goroutine may use it.
type Detached struct {
	client   *Client
	key      string
	leaseID  string
	holderID string
	token    int64

	mu       sync.Mutex
	deadline time.Duration
	unsure   bool // handed over by another process: to be renewed before use
	over     error
}

// AcquireDetached takes a lease that outlives this process's connection: nobody renews it but the caller. Errors are
// those of Lock. When ctx ends, the request is withdrawn; a grant that crosses this ends with its ttl.
func (c *Client) AcquireDetached(ctx context.Context, key string, options ...Option) (*Detached, error) {
	return c.AcquireDetachedWant(ctx, Want{Key: key}, options...)
}

// AcquireDetachedWant is AcquireDetached for another mode: see Shared and Permit.
func (c *Client) AcquireDetachedWant(ctx context.Context, want Want, options ...Option) (*Detached, error) {
	made := want.request(c.core.defaults, options, want.Options)
	if made.problem != nil {
		return nil, made.problem
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	request := &pb.AcquireRequest{Locks: []*pb.LockSpec{made.spec}, RequestId: hex.EncodeToString(id[:])}
	until := locktable.Never
	if made.wait != locktable.Forever {
		until = c.core.now() + made.wait
	}
	for left := repeats; ; left-- {
		limit := noPatience
		if until != locktable.Never {
			rest := time.Duration(0)
			if made.wait > 0 {
				rest = max(until-c.core.now(), time.Millisecond) // 0 would turn it into one try
			}
			made.spec.MaxWait, limit = durationpb.New(rest), rest+patience
		}
		sent := c.core.now()
		response, err := unary(ctx, c, limit, request, pb.LockServiceClient.Acquire)
		if err == nil && len(response.Grants) == 1 {
			return c.granted(ctx, sent, response.Grants[0])
		}
		var refused *RefusedError
		if left == 0 || !errors.As(err, &refused) || refused.Reason != ReasonUnreachable {
			return nil, err
		}
	}
}

// granted makes the lease of a grant, whose request was sent at that time or later.
func (c *Client) granted(ctx context.Context, sent time.Duration, grant *pb.Grant) (*Detached, error) {
	lease := &Detached{
		client: c, key: grant.Key, leaseID: grant.LeaseId, holderID: grant.HolderId, token: grant.FencingToken,
		deadline: sent + grant.Waited.AsDuration() + grant.ValidFor.AsDuration()}
	if c.core.now() >= lease.deadline { // after a wait of hundreds of ttls
		lease.unsure = true
		if _, err := lease.Renew(ctx); err != nil {
			return nil, err
		}
	}
	return lease, nil
}

// Detached is a lease that another process has acquired. Call Renew before use. key: for messages only.
func (c *Client) Detached(leaseID, key string) *Detached {
	return &Detached{client: c, key: key, leaseID: leaseID, unsure: true}
}

// Key is the lock's name.
func (d *Detached) Key() string { return d.key }

// Token is the fencing token: see Lock.Token. 0 for a lease that another process has acquired.
func (d *Detached) Token() int64 { return d.token }

// HolderID is this holder's public name; "" for a lease that another process has acquired.
func (d *Detached) HolderID() string { return d.holderID }

// LeaseID is secret: whoever knows it can renew and release the lease, through any broker of the store.
func (d *Detached) LeaseID() string { return d.leaseID }

// Err is nil while the lease may be believed in, by the clock, at this moment: see Lock.Err.
func (d *Detached) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err()
}

func (d *Detached) err() error {
	if d.over == nil && !d.unsure && d.client.core.now() >= d.deadline {
		d.over = &LostError{d.key, CauseLapsed, "it was not renewed before its deadline, which is final"}
	}
	if d.over == nil && d.unsure {
		return errToBeRenewed
	}
	return d.over
}

// Valid tells whether it may be believed in, by the clock, at this moment.
func (d *Detached) Valid() bool { return d.Err() == nil }

// ValidFor is how long it may be believed in without another Renew; 0 when it is not held.
func (d *Detached) ValidFor() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err() != nil {
		return 0
	}
	return max(d.deadline-d.client.core.now(), 0)
}

// Renew extends the lease to its full ttl, and returns ValidFor. A *LostError is final; after an *UnavailableError it
// is not known whether it was extended, and the former deadline counts: try again.
func (d *Detached) Renew(ctx context.Context) (time.Duration, error) {
	if err := d.Err(); err != nil && err != errToBeRenewed {
		if err != ErrReleased {
			d.freeLapsed(ctx)
		}
		return 0, err
	}
	sent := d.client.core.now()
	response, err := unary(ctx, d.client, patience, &pb.RenewRequest{LeaseId: d.leaseID}, pb.LockServiceClient.Renew)
	if err != nil {
		return 0, d.notRenewed(err)
	}
	d.mu.Lock()
	late := d.err()
	if late == nil || late == errToBeRenewed {
		d.deadline, d.unsure = max(d.deadline, sent+response.ValidFor.AsDuration()), false
	}
	d.mu.Unlock()
	if late != nil && late != errToBeRenewed { // the answer came after the deadline
		d.freeLapsed(ctx)
		return 0, late
	}
	return d.ValidFor(), nil
}

func (d *Detached) notRenewed(err error) error {
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != ReasonNotHolder {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over == nil {
		d.over = &LostError{d.key, CauseTaken, refused.Message}
	}
	return d.over
}

// freeLapsed releases a lease that is over, so that the lock need not wait for its ttl.
func (d *Detached) freeLapsed(ctx context.Context) {
	_, _ = unary(ctx, d.client, patience, &pb.ReleaseRequest{LeaseId: d.leaseID}, pb.LockServiceClient.Release)
}

// Release gives the lease back. An *UnavailableError: then the ttl ends it. The error of an outcome is that of
// Lock.Release.
func (d *Detached) Release(ctx context.Context) (Outcome, error) {
	d.mu.Lock()
	before := d.err()
	if before == nil || before == errToBeRenewed {
		before, d.over = nil, ErrReleased
	}
	d.mu.Unlock()
	response, err := unary(ctx, d.client, patience, &pb.ReleaseRequest{LeaseId: d.leaseID}, pb.LockServiceClient.Release)
	switch {
	case before != nil && err == nil:
		return AlreadyGone, before
	case err != nil:
		return OutcomeUnknown, errors.Join(ErrUnknownOutcome, err)
	}
	switch outcome := outcomeOf(response.Outcome); outcome {
	case Released, StillHeld:
		return outcome, nil
	case AlreadyGone:
		return outcome, &LostError{d.key, CauseTaken, "it had ended before the release arrived"}
	}
	return OutcomeUnknown, ErrUnknownOutcome
}
