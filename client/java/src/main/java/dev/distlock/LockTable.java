// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.util.*;
import java.util.function.Consumer;

/**
 * The engine of a client: one table of leases, and what may happen to it. A state machine without clock, threads or IO:
 * at() brings the time, as read from a clock that goes on in suspend, `effects` have what the program is to hear, and
 * Link.pack what brokers are told. Its rules are those of proto/distlock/v1/session.md, its states those of
 * client/python/README.md, "The engine". All calls are made under one mutex of the caller's.
 *
 * <p>There are two links, each with a stream or none. New acquires go through the present link. When its broker drains
 * and another one is known, the other link becomes the present one; leases follow by AdoptLease.
 */
final class LockTable extends LeaseMoves {
  static final long FOREVER = NEVER;
  static final long ONE_TRY = 0;
  private static final long CONNECT_TIMEOUT = 5 * Clock.SECOND;  // how long an answer to OpenSession may take

  private long validity = 3 * Clock.SECOND;  // of the last session

  LockTable(Config config) { super(config); }

  // Called for the program.

  /** Takes all of specs or none, and waits FOREVER, for ONE_TRY or so many nanoseconds. onQueued may be null. */
  Request acquire(List<LockSpec> specs, long wait, Consumer<Denial> answer, Consumer<AcquireQueued> onQueued) {
    long first = takeIds(specs.size());
    boolean tries = wait <= ONE_TRY;
    long until = tries || wait == FOREVER ? NEVER : now + wait;
    Request request = new Request(now, until, tries ? "" : prefix + first, answer, onQueued);
    for (LockSpec spec : specs) {
      LockSpec asked = tries ? spec.toBuilder().setMaxWait(Durations.wire(0)).build() : spec;
      Lease lease = new Lease(first + request.leases.size(), asked, request);
      request.leases.add(lease);
      live.put(lease.id, lease);
    }
    if (closed) {
      refuse(request, Denial.of(Denial.CLIENT_CLOSED, "the client was closed"));
      return request;
    }
    if (!link().opened) request.stranded = now;
    if (link().usable()) send(request);
    schedule(request);
    return request;
  }

  /** Withdraws a request; nothing is held then, also when it is granted at this moment. */
  void cancel(Request request) {
    if (request.answer == null) {
      for (Lease lease : request.leases) release(lease, null);
      return;
    }
    withdraw(request);
    refuse(request, Denial.of("CANCELLED", "withdrawn by the caller"));
  }

  /** Gives a lease back. It ends for the program at once; told hears the broker's answer, and may be null. */
  void release(Lease lease, Consumer<ReleaseOutcome> told) {
    if (lease.isHeld()) {
      end(lease, lease.causeNow(null, now), "released after its deadline", false, told);
    } else {
      tell(told, ReleaseOutcome.ALREADY_GONE);
    }
  }

  /** Makes an exclusive lease shared. */
  void downgrade(Lease lease, Consumer<Denial> told) {
    if (!lease.isHeld() || lease.link != null && lease.link.leaving) {
      tell(told, Denial.ENDED);
      return;
    }
    lease.downgrades.add(told);
    sendDowngrades(lease);
  }

  /** Gives all back and refuses what waits. */
  void close() {
    closed = true;
    for (Request request : waiting()) {
      refuse(request, Denial.of(Denial.CLIENT_CLOSED, "the client was closed while this waited"));
    }
    for (Lease lease : leases()) {
      end(lease, lease.causeNow(LossCause.CLIENT_CLOSED, now), "the client was closed", true, null);
    }
    for (Link link : links) {
      if (link.usable()) leave(link);
    }
  }

  /** Whether renewals of a held lease fail, its stream has broken, or a heartbeat is unanswered for too long. */
  boolean isAtRisk(Lease lease) {
    return lease.isHeld() && (!lease.risk.isEmpty() || lease.link != null
        && lease.link.session.overdue(lease.deadline, now));
  }

  // Called for the streams and the timer.

  /** Gives the present link a new stream. While leases move, one that does not answer must leave time for others. */
  Link start() {
    long patience = isMoving() ? validity / 3 : CONNECT_TIMEOUT;
    Link link = new Link(new Belief(now, now + patience));
    links[present] = link;
    link.add(SessionCommand.newBuilder().setId(takeIds(1))
        .setOpen(OpenSession.newBuilder().setClient(config.label()).setGeneration(sessions)).build());
    sessions++;
    for (Lease lease : live.values()) lease.stays = false;
    sendHeldBack();
    return link;
  }

  /** Shows another token to the session's broker, if that takes one. The answer changes nothing here. */
  void authenticate(Link link, String authorization) {
    if (!link.authenticates || !link.usable()) return;
    link.proof = takeIds(1);
    link.proofRefused = false;
    link.add(SessionCommand.newBuilder().setId(link.proof)
        .setAuthenticate(Authenticate.newBuilder().setAuthorization(authorization)).build());
  }

  /** When tick() must be called. */
  long wake() {
    long wake = Math.min(endsAt, movesAt);
    for (Link link : links) {
      if (link.streaming) wake = Math.min(wake, Math.min(link.session.deadline(), link.heartbeatAt));
    }
    return wake;
  }

  /** Handles timeouts, deadlines and heartbeats. Due at wake(); earlier calls are harmless. */
  void tick() {
    if (now >= endsAt) sweep();
    if (now >= movesAt) sendMoves();
    for (Link link : links) {
      if (link.streaming && now >= link.heartbeatAt) {
        link.heartbeatDue = true;
        link.heartbeatAt = now + link.interval;
      }
    }
  }

  /** Whether the link has something to pack. */
  boolean ready(Link link) {
    leaveWhenEmpty(link);
    return link.ready();
  }

  /** Takes one event of a link's stream. Events that are not known are ignored. */
  void onEvent(Link link, SessionEvent event) {
    long id = event.getId();
    link.onEvent(id);
    Lease lease = live.get(id);
    boolean has = lease != null && lease.link == link;
    switch (event.getEventCase()) {
      case OPENED -> onOpened(link, event.getOpened());
      case GRANTED -> onGranted(link, id, event.getGranted());
      case REFUSED -> onRefused(link, id, event.getRefused());
      case HEARTBEAT_ACK -> onAck(link, event.getHeartbeatAck());
      case DOWNGRADED -> answer(id, Reply.of(null, null));
      case RELEASED -> {
        ReleaseOutcome outcome = ReleaseOutcome.of(event.getReleased().getOutcome());
        // Under the acquire's own id: another program that knows the lease_id has released the lease.
        if (!answer(id, new Reply(null, null, outcome, false)) && has) {
          onGone(lease, LossCause.RELEASED, "released by its lease_id");
        }
      }
      case DRAINING -> {
        long left = Belief.span(event.getDraining().getTimeLeft());
        link.drainedAt = now + left;
        if (config.brokers() == 1 || !link.adopts) tellDraining(left);
        drains(link);
      }
      case LOST -> { if (has) onLost(lease, event.getLost()); }
      case QUEUED -> { if (has) onQueued(lease, event.getQueued()); }
      case AT_RISK -> {
        String cause = event.getAtRisk().getCause();
        if (has) lease.risk = cause.isEmpty() ? "a renewal failed" : cause;
      }
      case RENEWED -> { if (has) lease.risk = ""; }
      default -> { }
    }
  }

  private void onOpened(Link link, SessionOpened opened) {
    link.onEvent(0);
    link.opened = true;
    link.adopts = opened.getFeaturesList().contains("adopt");
    link.store = opened.getStoreId();
    link.authenticates = opened.getFeaturesList().contains("authenticate");
    if (opened.getMaxUnanswered() > 0) link.mostAhead = opened.getMaxUnanswered();
    if (opened.getMaxMessageBytes() > 0) link.maxBytes = opened.getMaxMessageBytes();
    if (Belief.span(opened.getValidity()) > 0) link.validity = Belief.span(opened.getValidity());
    validity = link.validity;
    long interval = Belief.span(opened.getHeartbeatInterval());
    link.interval = Math.max(interval > 0 ? interval : link.validity / 3, Link.LEAST_PAUSE);
    long sent = link.session.lastSentAt();
    link.session.ack(0, sent + link.validity, now);
    if (!link.leaving) {
      link.heartbeatAt = sent + link.interval;
      link.heartbeatDue |= now - sent > link.validity / 6;
    }
    if (link == link()) sendMoves();
    for (Request request : waiting()) {
      if (request.link() != link || request.turnedAway) continue;
      request.stranded = NEVER;
      schedule(request);
    }
  }

  /** The present broker has the request, and so its place. The former session matters no more. */
  private void onQueued(Lease lease, AcquireQueued queued) {
    Request request = lease.request;
    for (Lease part : request.leases) {
      if (part.crossed && part == lease) giveUp(part.former, part.id);
      if (!part.crossed || part == lease) part.leaveFormer();
    }
    request.stranded = NEVER;
    request.turnedAway = false;
    schedule(request);
    tell(request.onQueued, queued);
    request.onQueued = null;
  }

  private void onGranted(Link link, long id, Grant grant) {
    Lease lease = live.get(id);
    if (lease != null && lease.former == link) {  // it has gone to the next broker, which must have its place first
      lease.crossed = true;
      return;
    }
    if (lease == null || lease.link != link) {  // the answer to an adoption, or an id that was given up
      if (!answer(id, Reply.of(null, grant)) && link != link()) giveUp(link, id);
      return;
    }
    if (lease.phase != Lease.Phase.WAITING) return;
    lease.leaveFormer();
    lease.leaseId = grant.getLeaseId();
    lease.store = link.store;
    lease.token = grant.getFencingToken();
    lease.waited = Belief.span(grant.getWaited());
    lease.holdCount = Math.max(grant.getHoldCount(), 1);
    lease.deadline = link.session.deadlineOf(grant.getEchoSeq(), grant.getValidFor());
    lease.phase = Lease.Phase.GRANTED;
    beatBeforeHalf(link, lease.deadline);
    deliver(lease.request);
  }

  /** Hands a request's locks to the program, when all are granted and none is past its deadline. */
  private void deliver(Request request) {
    for (Lease lease : request.leases) {
      if (lease.phase != Lease.Phase.GRANTED || now >= lease.deadline) return;
    }
    for (Lease lease : request.leases) {
      lease.phase = Lease.Phase.HELD;
      endsAt = Math.min(endsAt, lease.deadline);
    }
    tell(request.answer, null);
    request.answer = null;
  }

  private void onAck(Link link, HeartbeatAck ack) {
    long promised = link.session.deadlineOf(ack.getSeq(), ack.getValidFor());
    if (!link.session.ack(ack.getSeq(), promised, now)) return;
    lastFailure = Denial.NONE;
    Map<Long, Long> limits = new HashMap<>();
    for (LeaseLimit limit : ack.getLimitsList()) {
      limits.put(limit.getAcquireId(), link.session.deadlineOf(ack.getSeq(), limit.getValidFor()));
    }
    long first = NEVER;
    for (Lease lease : leases()) {
      if (lease.link != link || lease.phase == Lease.Phase.WAITING) continue;
      if (lease.isHeld() && !notice(lease)) continue;  // its deadline was final
      Long limit = limits.get(lease.id);
      lease.deadline = limit != null ? limit : Math.max(lease.deadline, promised);
      if (lease.phase == Lease.Phase.GRANTED) deliver(lease.request);
      if (now < lease.deadline) first = Math.min(first, lease.deadline);  // what is over needs no further ack
    }
    sweep();
    if (first != NEVER) beatBeforeHalf(link, first);  // a short ttl needs its next ack before the interval is over
  }

  /** Ends the leases whose deadlines have passed, and gives up what has waited for too long. */
  private void sweep() {
    endsAt = NEVER;
    boolean elsewhere = false;
    for (Lease lease : leases()) {
      if (lease.phase == Lease.Phase.WAITING) {
        long at = givenUpAt(lease.request);
        if (now >= at) timeOut(lease.request);
        else endsAt = Math.min(endsAt, at);
      } else if (lease.isHeld() && notice(lease)) {
        endsAt = Math.min(endsAt, lease.deadline);
        elsewhere |= lease.link != link();
      }
    }
    moving &= elsewhere;
  }

  private void onRefused(Link link, long id, Refusal wire) {
    link.proofRefused |= id == link.proof;
    Denial denial = Denial.of(wire);
    Lease lease = live.get(id);
    if (lease == null) {
      answer(id, Reply.of(denial, null));
      return;
    }
    if (lease.former == link) lease.leaveFormer();
    if (lease.link != link || lease.isHeld()) return;
    if (!denial.is("DRAINING") || !turnAway(link, lease.request, denial)) refuse(lease.request, denial);
  }

  /** The broker drains. It has the request ask another one. False: the refusal is the answer. */
  private boolean turnAway(Link link, Request request, Denial denial) {
    boolean only = config.brokers() == 1;
    if (only && any(lease -> lease.isHeld() && lease.link == link)) return false;
    lastFailure = denial;
    request.turnedAway = true;
    strand(request);
    if (only) {
      leave(link);
      return true;
    }
    drains(link);
    if (link != link() && link().streaming) send(request);
    return true;
  }

  /** Its session does not have the lease any more. */
  private void onGone(Lease lease, LossCause cause, String message) {
    if (lease.isHeld()) {
      // A broker that adopted it may keep the lock after max_hold for a former promise, until its client says that
      // belief has ended.
      end(lease, cause, message, cause != LossCause.MAX_HOLD, null);
      return;
    }
    lease.phase = Lease.Phase.ENDED;
    withdraw(lease.request);
    refuse(lease.request, Denial.of("LEASE_LOST", "lost before use: " + message));
  }

  private void onLost(Lease lease, LeaseLost lost) {
    LostReason reason = lost.getReason();
    if (lease.isHeld() && reason == LostReason.LOST_REASON_MOVED && !lease.moveKey.isEmpty()) {
      lease.link = null;  // by the move that is under way: no later ack of this session speaks for the lease
    } else if (lease.isHeld() && reason == LostReason.LOST_REASON_DRAINED && survives(lease)) {
      orphan(lease, lost.getMessage());
    } else {
      onGone(lease, LossCause.of(reason), lost.getMessage());
    }
  }

  /** The stream of this link has ended, or must end. failure: its status; null: no error. */
  void onBroken(Link link, LossCause cause, String why, Denial failure) {
    for (Lease lease : leases()) {
      if (adopter(lease) == link) asked.remove(lease.toId);  // to be asked again
      if (lease.former == link) lease.leaveFormer();
      if (lease.link != link || !lease.isHeld()) continue;
      if (survives(lease)) {
        orphan(lease, why);
      } else {
        end(lease, lease.causeNow(cause, now), why, true, null);
      }
    }
    if (failure != null) lastFailure = failure;
    for (Request request : waiting()) {
      if (request.link() == link || request.link() == null && link == link()) strand(request);
      if (request.link() == null && failure != null && failure.isPermanent()) refuse(request, failure);
    }
    links[link == links[0] ? 0 : 1] = new Link(null);
    Reply gone = new Reply(Denial.of(Denial.UNREACHABLE, why), null, ReleaseOutcome.UNKNOWN, !link.leaving);
    for (Map.Entry<Long, Question> entry : List.copyOf(asked.entrySet())) {
      if (entry.getValue().link() == link) answer(entry.getKey(), gone);
    }
    moveOn();
  }

  private void timeOut(Request request) {
    long since = request.asked;
    String reason = "WAIT_TIMEOUT";
    String message = "no answer within the wait of " + (request.waitUntil - since) / Clock.MILLI + " ms";
    if (request.stranded != NEVER) {
      since = request.stranded;
      boolean told = lastFailure.is("DRAINING", "QUOTA_EXCEEDED", "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED");
      reason = told ? lastFailure.reason() : Denial.UNREACHABLE;
      message = "no broker at " + config.address() + " took it within " + (now - since) / Clock.MILLI + " ms"
          + (lastFailure.message().isEmpty() ? "" : ": " + lastFailure.message())
          + "; check that distlockd runs there, or set DISTLOCK_SERVER";
    }
    withdraw(request);
    refuse(request, new Denial(reason, Refusal.newBuilder().setMessage(message)
        .setWaited(Durations.wire(now - since)).build()));
  }
}
