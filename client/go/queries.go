// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"context"
	"iter"
	"math/rand/v2"
	"runtime"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/channel"
)

const (
	pageSize         = 1000
	watchPause       = 50 * time.Millisecond
	longestWatchWait = 2 * time.Second
)

// Inspect shows who holds a lock and who waits for it. Errors: a *RefusedError, such as *UnavailableError after about
// 5 s at each broker without an answer, ErrClosed, or that of ctx.
func (c *Client) Inspect(ctx context.Context, key string, options ...QueryOption) (*LockInfo, error) {
	q := queryOf(options)
	request := &pb.GetLockRequest{Namespace: q.namespace, Key: key, MaxWaiters: q.maxWaiters}
	response, err := unary(ctx, c, patience, request, pb.LockServiceClient.GetLock)
	if err != nil {
		return nil, err
	}
	info := lockInfoOf(response.Lock)
	info.HoldOff = response.HoldOff.AsDuration()
	return info, nil
}

// List goes over the held locks of a namespace whose keys begin with prefix, in no particular order. An error, as of
// Inspect, is the last thing that it yields.
func (c *Client) List(ctx context.Context, prefix string, options ...QueryOption) iter.Seq2[*LockInfo, error] {
	q := queryOf(options)
	return func(yield func(*LockInfo, error) bool) {
		for token := ""; ; {
			request := &pb.ListLocksRequest{
				Namespace: q.namespace, KeyPrefix: prefix, PageSize: pageSize, PageToken: token}
			response, err := unary(ctx, c, patience, request, pb.LockServiceClient.ListLocks)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, lock := range response.Locks {
				info := lockInfoOf(lock)
				info.HoldOff = response.HoldOff.AsDuration()
				if !yield(info, nil) {
					return
				}
			}
			if token = response.NextPageToken; token == "" {
				return
			}
		}
	}
}

// CheckToken tells whether no newer token was given. For resources that cannot compare tokens themselves: between the
// answer and the use a newer one may be given.
func (c *Client) CheckToken(ctx context.Context, key string, token int64, options ...QueryOption) (bool, error) {
	request := &pb.CheckTokenRequest{Namespace: queryOf(options).namespace, Key: key, FencingToken: token}
	response, err := unary(ctx, c, patience, request, pb.LockServiceClient.CheckToken)
	if err != nil {
		return false, err
	}
	return response.Newest, nil
}

// Watch yields the lock as it is, then again after each change of its holders or waiters, over reconnects, until ctx
// ends or the loop is left. An error that no further attempt can change is the last thing that it yields; the end of
// ctx is none.
func (c *Client) Watch(ctx context.Context, key string, options ...QueryOption) iter.Seq2[*LockInfo, error] {
	request := &pb.WatchLockRequest{Namespace: queryOf(options).namespace, Key: key}
	return watch(ctx, c, func(ctx context.Context, client pb.LockServiceClient) (receiver, error) {
		call, err := client.WatchLock(ctx, request)
		return func() (news, error) {
			response, err := call.Recv()
			return news{locks: []*LockInfo{lockInfoOf(response.GetLock())}}, err
		}, err
	})
}

// WatchPrefix yields the locks under a prefix that are held, waited for or blocked, as they are, then each change of
// their holders or waiters, also of locks that are taken later; LockInfo.Free tells of their end. Fast changes come as
// one. After a reconnect it yields all that are taken again, then what has become free meanwhile. Errors as of Watch,
// and ReasonQuotaExceeded.
func (c *Client) WatchPrefix(ctx context.Context, prefix string, options ...QueryOption) iter.Seq2[*LockInfo, error] {
	q := queryOf(options)
	request := &pb.WatchLocksRequest{Namespace: q.namespace, KeyPrefix: prefix}
	seen := taken{told: map[place]bool{}, onListed: q.onListed}
	return watch(ctx, c, func(ctx context.Context, client pb.LockServiceClient) (receiver, error) {
		call, err := client.WatchLocks(ctx, request)
		seen.begin()
		return func() (news, error) {
			response, err := call.Recv()
			return seen.take(response), err
		}, err
	})
}

// news is what one message of a watch tells. listed, if it is set, is to be called afterwards.
type news struct {
	locks  []*LockInfo
	listed func()
}

// receiver waits for the next message of a call.
type receiver func() (news, error)

type place struct{ namespace, key string }

// taken are the locks that a watch has told as taken. What became free while no stream was there is told when the next
// one has listed what is taken.
type taken struct {
	told     map[place]bool // true: the present stream has told of it, too
	onListed func()
}

func (t *taken) begin() {
	for one := range t.told {
		t.told[one] = false
	}
}

func (t *taken) take(response *pb.WatchLocksResponse) news {
	var found news
	for _, wire := range response.GetLocks() {
		lock := lockInfoOf(wire)
		found.locks = append(found.locks, lock)
		if one := (place{lock.Namespace, lock.Key}); lock.Free() {
			delete(t.told, one)
		} else {
			t.told[one] = true
		}
	}
	if !response.GetListed() {
		return found
	}
	for one, again := range t.told {
		if !again {
			delete(t.told, one)
			found.locks = append(found.locks, &LockInfo{Namespace: one.namespace, Key: one.key})
		}
	}
	found.listed = t.onListed
	return found
}

// watch calls open again and again, and yields what its calls receive.
func watch(ctx context.Context, of *Client,
	open func(context.Context, pb.LockServiceClient) (receiver, error)) iter.Seq2[*LockInfo, error] {
	return func(yield func(*LockInfo, error) bool) {
		defer runtime.KeepAlive(of)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		c := of.core
		for pause := watchPause; ctx.Err() == nil; {
			conn, client, err := c.channel()
			if err != nil {
				yield(nil, err)
				return
			}
			receive, err := open(ctx, client)
			for err == nil {
				var found news
				if found, err = receive(); err != nil {
					break
				}
				pause = watchPause
				for _, lock := range found.locks {
					if !yield(lock, nil) {
						return
					}
				}
				if found.listed != nil {
					found.listed()
				}
			}
			if ctx.Err() != nil {
				return
			}
			refusal := channel.Refusal(err)
			if refusal.Permanent() || refusal.Reason == string(ReasonQuotaExceeded) {
				yield(nil, refusedError(refusal))
				return
			}
			if unreachable(refusal) {
				c.nextChannel(conn)
			}
			sleep(ctx, rand.N(pause))
			pause = min(2*pause, longestWatchWait)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Leader is who leads an election; nil between two terms. Errors are those of Inspect.
func (c *Client) Leader(ctx context.Context, election string, options ...QueryOption) (*Leadership, error) {
	lock, err := c.Inspect(ctx, election, append(options[:len(options):len(options)], MaxWaiters(0))...)
	if err != nil {
		return nil, err
	}
	return leadershipOf(lock), nil
}

// Observe yields who leads, at once and after each change, nil between two terms, until ctx ends or the loop is left.
// Errors as of Watch.
func (c *Client) Observe(ctx context.Context, election string, options ...QueryOption) iter.Seq2[*Leadership, error] {
	return func(yield func(*Leadership, error) bool) {
		var last *Leadership
		first := true
		for lock, err := range c.Watch(ctx, election, options...) {
			if err != nil {
				yield(nil, err)
				return
			}
			leader := leadershipOf(lock)
			if !first && sameTerm(leader, last) {
				continue
			}
			first, last = false, leader
			if !yield(leader, nil) {
				return
			}
		}
	}
}

// sameTerm: a proclamation has another holder id.
func sameTerm(a, b *Leadership) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.HolderID == b.HolderID && a.Token == b.Token && a.Value == b.Value
}
