// SPDX-License-Identifier: Apache-2.0

package distlocktest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/types/known/durationpb"
)

func tellGrant(one *lease) {
	if one.session == nil {
		return
	}
	at := one.name()
	one.session.say(&pb.SessionEvent{Id: one.id, Event: &pb.SessionEvent_Granted{Granted: &pb.Grant{
		Namespace: at.namespace, Key: at.key, LeaseId: one.leaseID, HolderId: one.holderID, FencingToken: one.token,
		HoldCount: one.holdCount, Mode: one.spec.Mode, EchoSeq: one.session.heard,
		ValidFor: durationpb.New(min(validity, one.endsAt-one.session.heardAt))}}})
}

func (l *locks) refuse(asked *request, reason pb.RefusalReason, message string, now time.Duration) {
	refusal := &pb.Refusal{Reason: reason, Message: message}
	if reason == pb.RefusalReason_REFUSAL_REASON_LOCK_HELD || reason == pb.RefusalReason_REFUSAL_REASON_WAIT_TIMEOUT {
		refusal.Holders = l.holders(asked, now)
		refusal.QueueLength = l.info(asked.leases[0].name(), now).QueueLength
	}
	for _, one := range asked.leases {
		if one.session != nil {
			one.session.say(&pb.SessionEvent{Id: one.id, Event: &pb.SessionEvent_Refused{Refused: refusal}})
		}
	}
}

func (l *locks) holders(asked *request, now time.Duration) []*pb.Holder {
	var found []*pb.Holder
	for _, one := range asked.leases {
		found = append(found, l.info(one.name(), now).Holders...)
	}
	return found[:min(len(found), 16)]
}

func (l *locks) inTheWay(asked *request, now time.Duration) string {
	var owners []string
	for _, holder := range l.holders(asked, now) {
		owners = append(owners, holder.Owner)
	}
	who := cmp.Or(strings.Join(owners, ", "), "nobody; it is blocked, or others wait")
	return fmt.Sprintf("lock %q is not free: held by %s", asked.leases[0].name(), who)
}

// info is the lock as watchers and look-ups see it.
func (l *locks) info(of name, now time.Duration) *pb.LockInfo {
	lock := l.lock(of)
	info := &pb.LockInfo{Namespace: of.namespace, Key: of.key, FencingToken: lock.token}
	for _, asked := range l.waiting {
		for _, one := range asked.leases {
			if one.name() == of {
				info.Waiters = append(info.Waiters, &pb.Waiter{
					Owner: one.spec.Owner, Metadata: one.spec.Metadata, Mode: one.spec.Mode, Permits: one.spec.Permits})
			}
		}
	}
	seen := map[string]bool{}
	for _, one := range lock.holders {
		if !seen[one.leaseID] {
			info.Holders = append(info.Holders, &pb.Holder{
				HolderId: one.holderID, Owner: one.spec.Owner, Metadata: one.spec.Metadata, Mode: one.spec.Mode,
				Permits: one.spec.Permits, FencingToken: one.token, Ttl: durationpb.New(one.ttl()),
				TimeLeft: durationpb.New(one.ttl())})
		}
		seen[one.leaseID] = true
	}
	info.HolderCount, info.QueueLength = int32(len(info.Holders)), int32(len(info.Waiters))
	if lock.blockedUntil > now {
		info.Block = &pb.LockBlock{Owner: lock.blockedBy, TimeLeft: durationpb.New(lock.blockedUntil - now)}
	}
	return info
}
