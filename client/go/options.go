// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	pb "distlock.dev/client/go/distlockv1"
	"distlock.dev/client/go/internal/locktable"
	"distlock.dev/client/go/internal/process"
	"google.golang.org/protobuf/types/known/durationpb"
)

// electionValue is the entry of the metadata that holds a leader's value.
const electionValue = "distlock.election"

// Option says how a lock is asked for. Bounds are the defaults of the broker, which judges them.
type Option interface{ apply(*request) }

// QueryOption says what is looked at.
type QueryOption interface{ applyToQuery(*query) }

// request is what the options of one call make. The first problem is that of the call.
type request struct {
	spec     *pb.LockSpec
	wait     time.Duration
	onQueued func(Queued)
	problem  error
}

type query struct {
	namespace  string
	maxWaiters *int32
	onListed   func()
}

type option func(*request)

func (o option) apply(r *request) { o(r) }

func (r *request) fail(field, description string) {
	if r.problem == nil {
		r.problem = invalid(field, description)
	}
}

func (r *request) duration(field string, d time.Duration) *durationpb.Duration {
	if d < 0 {
		r.fail(field, fmt.Sprintf("is %v; it must be 0 or more", d))
	}
	return durationpb.New(d)
}

func (r *request) number(field string, n int) int32 {
	if n < 0 || n > math.MaxInt32 {
		r.fail(field, fmt.Sprintf("is %d; it must be 0 to %d", n, math.MaxInt32))
	}
	return int32(n)
}

// Wait bounds the wait: when it is over, the call returns a BusyError. Without it, and without Try, the call waits
// until the lock is granted or its context ends. d is up to 24 h; 0 is Try.
func Wait(d time.Duration) Option {
	return option(func(r *request) {
		if r.wait = d; d < 0 {
			r.fail("max_wait", fmt.Sprintf("is %v; give 0 for one try, or leave Wait out to wait until granted", d))
		}
	})
}

// Try asks once and never queues: a BusyError when others hold the lock.
func Try() Option { return Wait(0) }

// OnQueued has f called, at most once, when the request has taken its place in the queue. f runs on a goroutine of the
// client that runs all its callbacks; one that blocks delays the others, and nothing else.
func OnQueued(f func(Queued)) Option { return option(func(r *request) { r.onQueued = f }) }

type namespaceOption string

func (n namespaceOption) apply(r *request)       { r.spec.Namespace = string(n) }
func (n namespaceOption) applyToQuery(q *query)  { q.namespace = string(n) }
func (n maxWaitersOption) applyToQuery(q *query) { number := int32(n); q.maxWaiters = &number }

type maxWaitersOption int32

// NamespaceOption is both an Option and a QueryOption.
type NamespaceOption interface {
	Option
	QueryOption
}

// Namespace is that of the lock: up to 64 bytes; "" is "default". List and WatchPrefix take "-" for all of them.
func Namespace(namespace string) NamespaceOption { return namespaceOption(namespace) }

// MaxWaiters is how many waiters Inspect lists: 0 to 1000. Without it 100.
func MaxWaiters(n int) QueryOption { return maxWaitersOption(n) }

type onListedOption func()

func (f onListedOption) applyToQuery(q *query) { q.onListed = f }

// OnListed has f called by WatchPrefix, between two yields, whenever all that are taken have been told: at first, and
// after each reconnect.
func OnListed(f func()) QueryOption { return onListedOption(f) }

// TTL is how long the store keeps the lock without renewal, which is what a crash of the broker costs: 1 s to 1 h,
// without it 15 s. The broker renews the lock; of a detached lease it is the caller who does.
func TTL(d time.Duration) Option {
	return option(func(r *request) { r.spec.Ttl = r.duration("ttl", d) })
}

// MaxHold ends the lock this long after its grant, with CauseMaxHold. 0: never.
func MaxHold(d time.Duration) Option {
	return option(func(r *request) { r.spec.MaxHold = r.duration("max_hold", d) })
}

// LockDelay keeps what the lock held from others for this long after an abnormal end: up to 60 s.
func LockDelay(d time.Duration) Option {
	return option(func(r *request) { r.spec.LockDelay = r.duration("lock_delay", d) })
}

// MinHold keeps the lock from everybody until this long after its grant when it is released sooner, so that a job that
// several hosts start runs once a period: up to 25 h, of one exclusive lock.
func MinHold(d time.Duration) Option {
	return option(func(r *request) { r.spec.MinHold = r.duration("min_hold", d) })
}

// Policy says who goes next. Use one policy for all requests of a lock. Without it Fair.
func Policy(p QueuePolicy) Option {
	return option(func(r *request) { r.spec.Policy = pb.QueuePolicy(p) })
}

// OnDisconnect says what the broker does when the stream breaks. Without it DisconnectSafe.
func OnDisconnect(action DisconnectAction) Option {
	return option(func(r *request) { r.spec.OnDisconnect = pb.OnDisconnect(action) })
}

// Owner is a label of the caller that others are shown: up to 256 bytes. Without it user@host:pid of this process, but
// of Reentrant locks.
func Owner(owner string) Option { return option(func(r *request) { r.spec.Owner = owner }) }

// Metadata is shown to others, in addition to that of earlier options: up to 1 KiB in all.
func Metadata(entries map[string]string) Option {
	return option(func(r *request) {
		if r.spec.Metadata == nil {
			r.spec.Metadata = map[string]string{}
		}
		maps.Copy(r.spec.Metadata, entries)
	})
}

// Reentrant has another acquire with the same Owner, which must not be empty, succeed at once while this client holds
// the lock, with the same token. Each hold is given back on its own. Not for several locks at once.
func Reentrant() Option { return option(func(r *request) { r.spec.Reentrant = true }) }

// Resume has the lock outlive a broken stream, or the restart of the only broker, when a broker of the same store is
// reached before the last promise ends (3 s).
func Resume() Option { return option(func(r *request) { r.spec.Resume = true }) }

// Want is one of several locks that are taken together: see Client.LockAll.
type Want struct {
	Key     string
	Mode    Mode     // 0: ModeExclusive
	Permits int      // ModePermit only
	Limit   int      // ModePermit only
	Options []Option // for this one alone; its Wait and OnQueued do not count
}

// Keys wants each of them alone.
func Keys(keys ...string) []Want {
	wants := make([]Want, len(keys))
	for i, key := range keys {
		wants[i].Key = key
	}
	return wants
}

// Shared wants a lock for reading.
func Shared(key string, options ...Option) Want {
	return Want{Key: key, Mode: ModeShared, Options: options}
}

// Exclusive wants a lock alone.
func Exclusive(key string, options ...Option) Want {
	return Want{Key: key, Mode: ModeExclusive, Options: options}
}

// Permit wants n permits of a semaphore that has limit.
func Permit(key string, limit, n int, options ...Option) Want {
	return Want{Key: key, Mode: ModePermit, Permits: n, Limit: limit, Options: options}
}

// request makes the specification of one wanted lock.
func (w Want) request(groups ...[]Option) request {
	made := request{spec: &pb.LockSpec{Mode: pb.LockMode_LOCK_MODE_EXCLUSIVE}, wait: locktable.Forever}
	for _, options := range groups {
		for _, one := range options {
			one.apply(&made)
		}
	}
	spec := made.spec
	spec.Key = w.Key
	spec.Permits, spec.Limit = made.number("permits", w.Permits), made.number("limit", w.Limit)
	if w.Mode != 0 {
		spec.Mode = pb.LockMode(w.Mode)
	}
	texts := []struct{ field, text string }{{"key", spec.Key}, {"namespace", spec.Namespace}, {"owner", spec.Owner}}
	for key, value := range spec.Metadata {
		texts = append(texts, struct{ field, text string }{"metadata", key + value})
	}
	if spec.Owner == "" && !spec.Reentrant { // holds of one reentrant lock are those of one owner: that must be named
		spec.Owner = process.Owner()
	}
	for _, one := range texts {
		if !utf8.ValidString(one.text) {
			made.fail(one.field, fmt.Sprintf("is %q; it must be UTF-8", one.text))
		}
	}
	return made
}

func queryOf(options []QueryOption) query {
	var made query
	for _, one := range options {
		one.applyToQuery(&made)
	}
	return made
}

func trimmed(name, prefix string) string {
	if cut, found := strings.CutPrefix(name, prefix); found {
		return cut
	}
	return "UNKNOWN_" + name
}
