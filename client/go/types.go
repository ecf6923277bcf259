// SPDX-License-Identifier: Apache-2.0

package distlock

import (
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Mode is how a lock is held.
type Mode int

// The modes of a lock.
const (
	ModeExclusive Mode = Mode(pb.LockMode_LOCK_MODE_EXCLUSIVE) // alone
	ModeShared    Mode = Mode(pb.LockMode_LOCK_MODE_SHARED)    // beside other readers
	ModePermit    Mode = Mode(pb.LockMode_LOCK_MODE_PERMIT)    // some permits of a semaphore
)

func (m Mode) String() string { return trimmed(pb.LockMode(m).String(), "LOCK_MODE_") }

// QueuePolicy says who goes next when several wait. It applies to the request that names it.
type QueuePolicy int

// The policies.
const (
	Fair             QueuePolicy = QueuePolicy(pb.QueuePolicy_QUEUE_POLICY_FAIR)              // order of arrival
	WriterPreferring QueuePolicy = QueuePolicy(pb.QueuePolicy_QUEUE_POLICY_WRITER_PREFERRING) // waiting writers first
	ReaderPreferring QueuePolicy = QueuePolicy(pb.QueuePolicy_QUEUE_POLICY_READER_PREFERRING) // readers past writers
	// Adaptive lets newcomers take a free lock, until some waiter has waited for 100 ms.
	Adaptive QueuePolicy = QueuePolicy(pb.QueuePolicy_QUEUE_POLICY_ADAPTIVE)
)

// DisconnectAction says what the broker does with a lock whose stream broke.
type DisconnectAction int

// The actions.
const (
	// DisconnectSafe frees it when its last promise to this client has ended: within the validity (3 s). The default.
	DisconnectSafe DisconnectAction = DisconnectAction(pb.OnDisconnect_ON_DISCONNECT_SAFE)
	// DisconnectRelease frees it at once, although this client may not have noticed yet.
	DisconnectRelease DisconnectAction = DisconnectAction(pb.OnDisconnect_ON_DISCONNECT_RELEASE)
	// DisconnectExpire leaves it to its ttl.
	DisconnectExpire DisconnectAction = DisconnectAction(pb.OnDisconnect_ON_DISCONNECT_EXPIRE)
)

// Outcome is what a release did.
type Outcome int

// The outcomes.
const (
	OutcomeUnknown Outcome = iota // no answer came; the lock is freed all the same, at the latest when its ttl ends
	Released                      // this call gave the lock back
	StillHeld                     // reentrant: others of this client's holds are left
	AlreadyGone                   // it had ended before; nothing was changed
)

func (o Outcome) String() string {
	return [...]string{"UNKNOWN", "RELEASED", "STILL_HELD", "ALREADY_GONE"}[o]
}

func outcomeOf(wire pb.ReleaseOutcome) Outcome {
	if wire < 0 || int(wire) > int(AlreadyGone) {
		return OutcomeUnknown
	}
	return Outcome(wire)
}

// Holder is who holds a lock, as everybody may see it.
type Holder struct {
	HolderID    string
	Owner       string
	Metadata    map[string]string
	Mode        Mode
	Permits     int
	Token       int64
	AcquireTime time.Time     // of its grant, by the store's clock; zero: not known
	TimeLeft    time.Duration // of the ttl, without another renewal
	TTL         time.Duration
	BrokerID    string
}

// Waiter is who waits for a lock. WaiterID becomes its HolderID.
type Waiter struct {
	WaiterID  string
	Owner     string
	Metadata  map[string]string
	Mode      Mode
	Permits   int
	StartTime time.Time // by the store's clock; zero: not known
	BrokerID  string
}

// Block is a lock_delay that runs, after an abnormal end, or a min_hold, after a release that came sooner.
type Block struct {
	StartTime time.Time     // when that holder ended, by the store's clock
	TimeLeft  time.Duration // until others may have the lock
	Owner     string        // of that holder
}

// LockInfo is a lock as the store knows it. Counts are complete, lists are bounded.
type LockInfo struct {
	Namespace   string
	Key         string
	Holders     []Holder
	Waiters     []Waiter
	Token       int64 // of the latest grant; 0: none in the last 24 h
	QueueLength int
	HolderCount int
	Block       *Block // nil: it is not blocked
	// For so long nobody is newly granted a lock (Inspect, List), since the store may have forgotten a holder.
	HoldOff time.Duration
}

// Free tells whether nobody holds it or waits for it, and neither a block nor a hold-off runs.
func (l *LockInfo) Free() bool {
	return l.HolderCount == 0 && l.QueueLength == 0 && l.Block == nil && l.HoldOff == 0
}

// Queued is the place in the queue at the moment of joining it.
type Queued struct {
	Position int // how many wait in front
	Holders  []Holder
	Block    *Block
}

// Leadership is who leads an election, as others see it.
type Leadership struct {
	Value       string // what the leader has proclaimed
	Owner       string
	HolderID    string
	Token       int64
	AcquireTime time.Time // when the term began, by the store's clock; zero: not known
}

func timeOf(wire *timestamppb.Timestamp) time.Time {
	if wire == nil {
		return time.Time{}
	}
	return wire.AsTime()
}

func holdersOf(wire []*pb.Holder) []Holder {
	var holders []Holder
	for _, h := range wire {
		holders = append(holders, Holder{
			HolderID: h.HolderId, Owner: h.Owner, Metadata: h.Metadata, Mode: Mode(h.Mode), Permits: int(h.Permits),
			Token: h.FencingToken, AcquireTime: timeOf(h.AcquireTime), TimeLeft: h.TimeLeft.AsDuration(),
			TTL: h.Ttl.AsDuration(), BrokerID: h.BrokerId})
	}
	return holders
}

func blockOf(wire *pb.LockBlock) *Block {
	if wire == nil {
		return nil
	}
	return &Block{timeOf(wire.StartTime), wire.TimeLeft.AsDuration(), wire.Owner}
}

func lockInfoOf(wire *pb.LockInfo) *LockInfo {
	info := &LockInfo{
		Namespace: wire.GetNamespace(), Key: wire.GetKey(), Holders: holdersOf(wire.GetHolders()),
		Token: wire.GetFencingToken(), QueueLength: int(wire.GetQueueLength()),
		HolderCount: int(wire.GetHolderCount()), Block: blockOf(wire.GetBlock())}
	for _, w := range wire.GetWaiters() {
		info.Waiters = append(info.Waiters, Waiter{
			WaiterID: w.WaiterId, Owner: w.Owner, Metadata: w.Metadata, Mode: Mode(w.Mode), Permits: int(w.Permits),
			StartTime: timeOf(w.StartTime), BrokerID: w.BrokerId})
	}
	return info
}

func leadershipOf(lock *LockInfo) *Leadership {
	if len(lock.Holders) == 0 {
		return nil
	}
	h := lock.Holders[0]
	return &Leadership{h.Metadata[electionValue], h.Owner, h.HolderID, h.Token, h.AcquireTime}
}
