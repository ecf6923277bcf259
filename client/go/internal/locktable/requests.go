// SPDX-License-Identifier: Apache-2.0

package locktable

import (
	"fmt"
	"strconv"
	"time"

	pb "distlock.dev/client/go/distlockv1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Acquire takes all of specs or none, and waits for Forever, OneTry or a duration. The table owns specs from now on.
// onQueued may be nil.
func (t *Table) Acquire(specs []*pb.LockSpec, wait time.Duration, answer func(*Refusal),
	onQueued func(*pb.AcquireQueued), now time.Duration, fx *Effects) *Request {
	request := &Request{answer: answer, onQueued: onQueued, asked: now, waitUntil: Never, stranded: Never}
	first := t.takeIDs(len(specs))
	for i, spec := range specs {
		if wait <= OneTry {
			spec.MaxWait = &durationpb.Duration{}
		}
		lease := &Lease{id: first + int64(i), request: request, Spec: spec}
		request.Leases = append(request.Leases, lease)
		t.live[lease.id] = lease
	}
	if t.closed {
		t.refuse(request, Refuse(ClientClosed, "the client was closed"), fx)
		return request
	}
	if wait > OneTry {
		request.requestID = string(strconv.AppendInt(t.prefix, first, 10))
	}
	if wait > OneTry && wait != Forever {
		request.waitUntil = now + min(wait, longestSpan)
	}
	if !t.Link().Opened {
		request.stranded = now
	}
	if t.Link().usable() {
		t.send(request, now, fx)
	}
	t.schedule(request)
	return request
}

// Cancel withdraws a request that is not answered; nothing is held then. Afterwards release its leases instead.
func (t *Table) Cancel(request *Request, fx *Effects) {
	if !request.Answered() {
		t.withdraw(request)
		t.refuse(request, Refuse("CANCELLED", "withdrawn by the caller"), fx)
	}
}

// Release gives a lease back. It ends for the program at once; told hears the broker's answer, and may be nil.
func (t *Table) Release(lease *Lease, told func(pb.ReleaseOutcome), now time.Duration, fx *Effects) {
	if lease.Phase() != Held {
		tell(told, alreadyGone, fx)
		return
	}
	t.end(lease, lease.causeNow(CauseGivenBack, now), "released after its deadline", false, told, fx)
}

// Downgrade makes an exclusive lease shared.
func (t *Table) Downgrade(lease *Lease, told func(*Refusal), fx *Effects) {
	if isKept(lease, "", told, fx) {
		lease.downgrades = append(lease.downgrades, told)
		t.sendDowngrades(lease)
	}
}

// isKept refuses what cannot be done with a lease, because it has ended or as unable says.
func isKept(lease *Lease, unable string, told func(*Refusal), fx *Effects) bool {
	if lease.Phase() != Held || (lease.link != nil && lease.link.leaving) {
		tell(told, hasEnded, fx)
		return false
	}
	if unable != "" {
		tell(told, Refuse("NOT_SUPPORTED", unable), fx)
	}
	return unable == ""
}

// Proclaim changes what others see of a held lease: its session adopts it anew.
func (t *Table) Proclaim(lease *Lease, metadata map[string]string, told func(*Refusal), now time.Duration,
	fx *Effects) {
	unable := ""
	if lease.Spec.Reentrant {
		unable = "the lock is reentrant: what is shown of its holds cannot change"
	} else if lease.stays || (lease.link != nil && !lease.link.adopts) {
		unable = "the broker is too old to change what is shown of a lock"
	}
	if !isKept(lease, unable, told, fx) {
		return
	}
	if lease.change == nil {
		lease.change = &change{}
	}
	spec := proto.Clone(lease.Spec).(*pb.LockSpec)
	proto.Merge(spec, &pb.LockSpec{Metadata: metadata})
	lease.change.spec = spec
	lease.change.told = append(lease.change.told, told)
	t.moveAt(now)
}

// Close gives all back and refuses what waits.
func (t *Table) Close(now time.Duration, fx *Effects) {
	t.closed = true
	for _, request := range t.waiting() {
		t.refuse(request, Refuse(ClientClosed, "the client was closed while this waited"), fx)
	}
	for _, lease := range t.ordered() {
		t.end(lease, lease.causeNow(CauseClientClosed, now), "the client was closed", true, nil, fx)
	}
	for _, link := range t.Links {
		if link.usable() {
			t.leave(link)
		}
	}
}

// Start gives the present link a new stream. claim is of this process, for a broker that can see its end; nil: none.
func (t *Table) Start(now time.Duration, claim *pb.ProcessClaim, fx *Effects) {
	link := t.Link()
	*link = Link{streaming: true, mostAhead: mostAhead, maxBytes: messageBytes, heartbeatAt: Never, drainedAt: Never,
		session: belief{lastAcked: -1, deadline: now + t.config.ConnectTimeout}}
	link.session.sentAt[0] = now
	opening := &pb.OpenSession{Client: t.config.Label, Generation: t.sessions, Process: claim}
	link.add(&pb.SessionCommand{Id: t.takeIDs(1), Command: &pb.SessionCommand_Open{Open: opening}})
	t.sessions++
	for _, lease := range t.live {
		lease.stays = false
	}
	t.sendHeldBack(now, fx)
}

// Authenticate shows another token to the session's broker, if that takes one. refused: it does not let that one in.
func (t *Table) Authenticate(link *Link, authorization string, refused func()) {
	if link.Authenticates && link.usable() {
		t.ask(link, &pb.SessionCommand{Command: &pb.SessionCommand_Authenticate{
			Authenticate: &pb.Authenticate{Authorization: authorization}}}, func(a answer, _ time.Duration, _ *Effects) {
			if a.refusal != nil {
				refused()
			}
		})
	}
}

// Ready tells whether the link has something to Pack.
func (t *Table) Ready(link *Link) bool {
	t.leaveWhenEmpty(link)
	return link.ready()
}

// Tick handles timeouts, deadlines and heartbeats. Due at Wake; earlier calls are harmless.
func (t *Table) Tick(now time.Duration, fx *Effects) {
	if now >= t.endsAt {
		t.sweep(now, fx)
	}
	if now >= t.movesAt {
		t.sendMoves(now, fx)
	}
	for _, link := range t.Links {
		if link.streaming && now >= link.heartbeatAt {
			link.heartbeatDue, link.heartbeatAt = true, now+link.interval
		}
	}
}

// schedule sees that a waiting request is given up in time.
func (t *Table) schedule(request *Request) { t.endsAt = min(t.endsAt, t.givenUpAt(request)) }

// givenUpAt is when a request has waited for too long: for its answer, or for a broker to be found.
func (t *Table) givenUpAt(request *Request) time.Duration {
	switch {
	case request.stranded == Never && request.waitUntil == Never:
		return Never
	case request.stranded == Never:
		return request.waitUntil + answerGrace
	case t.config.UnreachableAfter > 0:
		return min(request.waitUntil, request.stranded+t.config.UnreachableAfter)
	case request.waitUntil != Never:
		return request.waitUntil
	case request.requestID == "":
		return request.stranded + time.Second
	}
	return request.stranded + 10*time.Second
}

func (t *Table) timeOut(request *Request, now time.Duration, fx *Effects) {
	since, reason := request.asked, "WAIT_TIMEOUT"
	message := fmt.Sprintf("no answer within the wait of %.3f s", (request.waitUntil - request.asked).Seconds())
	if request.stranded != Never {
		since, reason, message = request.stranded, Unreachable, ""
		if t.lastFailure.is("DRAINING", "QUOTA_EXCEEDED", "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED") {
			reason = t.lastFailure.Reason
		}
		if why := t.lastFailure.Wire.Message; why != "" {
			message = ": " + why
		}
		message = fmt.Sprintf("no broker at %s took it within %d ms%s; check that distlockd runs there, or set "+
			"DISTLOCK_SERVER", t.config.Address, (now - since).Milliseconds(), message)
	}
	t.withdraw(request)
	refusal := Refuse(reason, message)
	refusal.Wire.Waited = durationpb.New(now - since)
	t.refuse(request, refusal, fx)
}
