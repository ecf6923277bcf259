// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import dev.distlock.v1.ReleaseOutcome;  // not this package's
import java.util.*;
import java.util.function.Predicate;
import java.util.stream.*;

/**
 * The locks of a test's broker: who holds them, who waits for them, and when that ends. Without clock or IO: time is
 * passed in, and sessions hear what comes of it.
 */
final class TestLocks {
  static final long VALIDITY = 3 * Clock.SECOND;
  private static final long TTL = 15 * Clock.SECOND;
  private static final long NEVER = LeaseTable.NEVER;
  private static final int MOST_HOLDERS = 16;

  /** One client's session. */
  static final class Session {
    final List<SessionEvent> outbox = new ArrayList<>();
    private long heard;  // the newest heartbeat
    private long heardAt;

    Session(long now) { heardAt = now; }
    void say(long id, SessionEvent.Builder event) { outbox.add(event.setId(id).build()); }
  }

  private record Name(String namespace, String key) {
    static Name of(String namespace, String key) { return new Name(namespace.isEmpty() ? "default" : namespace, key); }
    static Name of(LockSpec spec) { return of(spec.getNamespace(), spec.getKey()); }
  }

  /** A lock that is held, or waited for. */
  private static final class Hold {
    private long id;
    private Session session;  // null: no session has it
    private LockSpec spec;
    private String leaseId = "";
    private long token;
    private int count = 1;
    private long grantedAt;
    private long endsAt = NEVER;  // by max_hold, or when no session takes it over

    Hold(long id, Session session, LockSpec spec) {
      this.id = id;
      this.session = session;
      this.spec = spec;
    }

    Name name() { return Name.of(spec); }
    boolean shares(Hold other) { return leaseId.equals(other.leaseId); }  // one reentrant lease
    String holderId() { return "holder " + token + " of " + spec.getKey(); }
    int permits() { return Math.max(spec.getPermits(), 1); }

    long endOfHold() {
      long maxHold = Belief.span(spec.getMaxHold());
      return maxHold == 0 ? NEVER : grantedAt + maxHold;
    }

    long ttl() { return spec.hasTtl() ? Belief.span(spec.getTtl()) : TTL; }

    Holder shown() {
      return Holder.newBuilder().setHolderId(holderId()).setOwner(spec.getOwner()).putAllMetadata(spec.getMetadataMap())
          .setMode(spec.getMode()).setPermits(spec.getPermits()).setFencingToken(token)
          .setTtl(Durations.wire(ttl())).setTimeLeft(Durations.wire(ttl())).build();
    }

    boolean isReentryOf(Hold held) {
      return spec.getReentrant() && held.spec.getReentrant() && held.session == session
          && held.spec.getOwner().equals(spec.getOwner());
    }
  }

  /** One acquire of one lock or of several, until it is granted or refused. */
  private static final class Asked {
    private final List<Hold> holds = new ArrayList<>();
    private final String requestId;  // of one try: ""
    private final boolean tries;
    private long until;

    Asked(Session session, long id, AcquireLocks acquire, long now) {
      for (LockSpec spec : acquire.getLocksList()) holds.add(new Hold(id + holds.size(), session, spec));
      requestId = acquire.getRequestId();
      LockSpec first = acquire.getLocks(0);
      long wait = Belief.span(first.getMaxWait());
      tries = first.hasMaxWait() && wait == 0;
      until = first.hasMaxWait() ? now + wait : NEVER;
    }

    Session session() { return holds.get(0).session; }
    boolean isSame(Asked again) { return !requestId.isEmpty() && requestId.equals(again.requestId); }
    boolean names(Name name) { return holds.stream().anyMatch(hold -> hold.name().equals(name)); }
  }

  private static final class Lock {
    private final List<Hold> holders = new ArrayList<>();
    private long token;
    private long blockedUntil;

    boolean isAll(LockMode mode) { return holders.stream().allMatch(hold -> hold.spec.getMode() == mode); }
  }

  private final Map<Name, Lock> locks = new LinkedHashMap<>();
  private final List<Asked> waiting = new ArrayList<>();  // in the order of their arrival
  private int leases;

  private Lock lock(Name name) { return locks.computeIfAbsent(name, unused -> new Lock()); }

  private List<Hold> held(Predicate<Hold> which) {
    return locks.values().stream().flatMap(lock -> lock.holders.stream()).filter(which).toList();
  }

  private List<Hold> heldBy(Session session) { return held(hold -> hold.session == session); }

  int waitingFor(String namespace, String key) {
    return (int) waiting.stream().filter(asked -> asked.names(Name.of(namespace, key))).count();
  }

  /** The next moment after now at which time alone changes something. */
  long nextEnd(long now) {
    Stream<Long> ends = Stream.concat(waiting.stream().map(asked -> asked.until),
        Stream.concat(locks.values().stream().map(lock -> lock.blockedUntil),
            held(hold -> true).stream().map(hold -> hold.endsAt)));
    return ends.filter(at -> at > now).min(Long::compare).orElse(NEVER);
  }

  void open(Session session, long id) {
    session.say(id, SessionEvent.newBuilder().setOpened(SessionOpened.newBuilder()
        .setSessionId("test").setBrokerId("test").setValidity(Durations.wire(VALIDITY))
        .setHeartbeatInterval(Durations.wire(Clock.SECOND)).addFeatures("permit").addFeatures("adopt")));
  }

  void beat(Session session, long seq, long now) {
    session.heard = seq;
    session.heardAt = now;
    HeartbeatAck.Builder ack = HeartbeatAck.newBuilder().setSeq(seq).setValidFor(Durations.wire(VALIDITY));
    for (Hold hold : heldBy(session)) {
      if (hold.endsAt >= now + VALIDITY) continue;
      ack.addLimits(LeaseLimit.newBuilder().setAcquireId(hold.id).setValidFor(Durations.wire(hold.endsAt - now)));
    }
    session.say(0, SessionEvent.newBuilder().setHeartbeatAck(ack));
  }

  /** Queues a request, in the place that it had before when it comes again. refusing: why each is refused, or null. */
  void acquire(Session session, long id, AcquireLocks acquire, RefusalReason refusing, long now) {
    Asked asked = new Asked(session, id, acquire, now);
    String problem = problemOf(acquire.getLocksList());
    if (refusing != null || !problem.isEmpty()) {
      refuse(asked, refusing != null ? refusing : RefusalReason.REFUSAL_REASON_INVALID_ARGUMENT,
          refusing != null ? "as the test says" : problem, now);
      return;
    }
    int place = 0;
    while (place < waiting.size() && !waiting.get(place).isSame(asked)) place++;
    if (place < waiting.size()) waiting.set(place, asked);
    else waiting.add(asked);
    serve(now);
    if (!waiting.contains(asked)) return;
    if (asked.tries) {
      waiting.remove(asked);
      refuse(asked, RefusalReason.REFUSAL_REASON_LOCK_HELD, inTheWay(asked), now);
    } else {
      session.say(id, SessionEvent.newBuilder().setQueued(
          AcquireQueued.newBuilder().setPosition(place).addAllHolders(holders(asked))));
    }
  }

  private static String problemOf(List<LockSpec> specs) {
    if (specs.stream().anyMatch(spec -> spec.getKey().isEmpty())) return "key must not be empty";
    boolean tooMany = specs.stream().anyMatch(spec -> spec.getMode() == LockMode.LOCK_MODE_PERMIT
        && spec.getPermits() > spec.getLimit());
    return tooMany ? "permits must be at most limit" : "";
  }

  void cancel(Session session, long id, long now) {
    for (Asked asked : List.copyOf(waiting)) {
      if (asked.session() != session || asked.holds.stream().noneMatch(hold -> hold.id == id)) continue;
      waiting.remove(asked);
      refuse(asked, RefusalReason.REFUSAL_REASON_CANCELLED, "withdrawn", now);
    }
    for (Hold hold : heldBy(session)) {
      if (hold.id == id) end(hold, null, false, now);
    }
  }

  void release(Session session, long id, ReleaseLease release, long now) {
    ReleaseOutcome outcome = ReleaseOutcome.RELEASE_OUTCOME_ALREADY_GONE;
    for (Hold hold : held(hold -> hold.session == session && hold.id == release.getAcquireId()
        || !release.getLeaseId().isEmpty() && hold.leaseId.equals(release.getLeaseId()))) {
      end(hold, null, release.getLapsed(), now);
      outcome = held(hold::shares).isEmpty() ? ReleaseOutcome.RELEASE_OUTCOME_RELEASED
          : ReleaseOutcome.RELEASE_OUTCOME_STILL_HELD;
    }
    session.say(id, SessionEvent.newBuilder().setReleased(LeaseReleased.newBuilder().setOutcome(outcome)));
  }

  void downgrade(Session session, long id, long acquireId) {
    List<Hold> found = heldBy(session).stream().filter(hold -> hold.id == acquireId).toList();
    for (Hold hold : found) {
      for (Hold one : held(hold::shares)) one.spec = one.spec.toBuilder().setMode(LockMode.LOCK_MODE_SHARED).build();
    }
    if (found.isEmpty()) notHolder(session, id);
    else session.say(id, SessionEvent.newBuilder().setDowngraded(LeaseDowngraded.getDefaultInstance()));
  }

  private static void notHolder(Session session, long id) {
    session.say(id, SessionEvent.newBuilder().setRefused(Refusal.newBuilder()
        .setReason(RefusalReason.REFUSAL_REASON_NOT_HOLDER).setMessage("it is not held")));
  }

  void adopt(Session session, long id, AdoptLease adopt) {
    List<Hold> found = held(hold -> hold.leaseId.equals(adopt.getLeaseId()));
    String leaseId = newLease();
    long next = id;
    for (Hold hold : found) {
      hold.id = next++;
      hold.session = session;
      hold.leaseId = leaseId;
      hold.endsAt = hold.endOfHold();
      tellGrant(hold);
    }
    if (found.isEmpty()) notHolder(session, id);
  }

  /** The session has said goodbye: all that it has is free. */
  void leave(Session session, long now) {
    heldBy(session).forEach(hold -> end(hold, null, false, now));
    waiting.removeIf(asked -> asked.session() == session);
  }

  /** The session is gone without a goodbye: what it has ends in time, unless another session takes it over. */
  void part(Session session, long now) {
    for (Hold hold : heldBy(session)) {
      long ends = switch (hold.spec.getOnDisconnect()) {
        case ON_DISCONNECT_RELEASE -> now;
        case ON_DISCONNECT_EXPIRE -> now + hold.ttl();
        default -> session.heardAt + VALIDITY;
      };
      hold.session = null;
      hold.endsAt = Math.min(hold.endsAt, ends);
    }
    for (Asked asked : waiting) {
      if (asked.session() != session) continue;
      asked.until = Math.min(asked.until, now + VALIDITY);  // its place, until it comes again
      asked.holds.forEach(hold -> hold.session = null);
    }
  }

  /** Takes the lock from all who hold it. */
  void lose(String namespace, String key, LostReason reason, long now) {
    List.copyOf(lock(Name.of(namespace, key)).holders).forEach(hold -> end(hold, reason, false, now));
  }

  /** Ends what time ends, and grants what can be granted, in the order of arrival. */
  void pass(long now) {
    for (Asked asked : List.copyOf(waiting)) {
      if (now < asked.until) continue;
      waiting.remove(asked);
      refuse(asked, RefusalReason.REFUSAL_REASON_WAIT_TIMEOUT, inTheWay(asked), now);
    }
    for (Hold hold : held(hold -> now >= hold.endsAt)) {
      end(hold, hold.session == null ? LostReason.LOST_REASON_EXPIRED : LostReason.LOST_REASON_MAX_HOLD, false, now);
    }
    serve(now);
  }

  private void serve(long now) {
    for (Asked asked : List.copyOf(waiting)) {
      if (asked.session() == null || !asked.holds.stream().allMatch(hold -> isFree(hold, asked, now))) continue;
      waiting.remove(asked);
      asked.holds.forEach(hold -> grant(hold, now));
    }
  }

  private Optional<Hold> again(Hold wanted) {
    return lock(wanted.name()).holders.stream().filter(wanted::isReentryOf).findFirst();
  }

  private boolean isFree(Hold wanted, Asked of, long now) {
    if (again(wanted).isPresent()) return true;
    Name name = wanted.name();
    if (waiting.stream().takeWhile(before -> before != of).anyMatch(before -> before.names(name))) return false;
    Lock lock = lock(name);
    LockMode mode = wanted.spec.getMode();
    int taken = wanted.permits() + lock.holders.stream().mapToInt(Hold::permits).sum();
    return now >= lock.blockedUntil && switch (mode) {
      case LOCK_MODE_PERMIT -> lock.isAll(mode) && taken <= wanted.spec.getLimit();
      case LOCK_MODE_SHARED -> lock.isAll(mode);
      default -> lock.holders.isEmpty();
    };
  }

  private String newLease() { return "lease " + ++leases; }

  private void grant(Hold hold, long now) {
    Lock lock = lock(hold.name());
    Optional<Hold> again = again(hold);
    hold.grantedAt = again.map(held -> held.grantedAt).orElse(now);
    hold.leaseId = again.map(held -> held.leaseId).orElseGet(this::newLease);
    hold.token = again.map(held -> held.token).orElseGet(() -> ++lock.token);
    hold.endsAt = again.map(held -> held.endsAt).orElseGet(hold::endOfHold);
    hold.count = 1 + (int) lock.holders.stream().filter(hold::shares).count();
    lock.holders.add(hold);
    tellGrant(hold);
  }

  private static void tellGrant(Hold hold) {
    long validFor = Math.min(VALIDITY, hold.endsAt - hold.session.heardAt);
    hold.session.say(hold.id, SessionEvent.newBuilder().setGranted(Grant.newBuilder()
        .setNamespace(hold.name().namespace()).setKey(hold.name().key()).setLeaseId(hold.leaseId)
        .setHolderId(hold.holderId()).setFencingToken(hold.token).setHoldCount(hold.count).setMode(hold.spec.getMode())
        .setEchoSeq(hold.session.heard).setValidFor(Durations.wire(validFor))));
  }

  /** reason: why it is lost; null: it was given back. */
  private void end(Hold hold, LostReason reason, boolean lapsed, long now) {
    Lock lock = lock(hold.name());
    lock.holders.remove(hold);
    long block = reason == null && !lapsed ? hold.grantedAt + Belief.span(hold.spec.getMinHold())
        : now + Belief.span(hold.spec.getLockDelay());
    if (held(hold::shares).isEmpty()) lock.blockedUntil = Math.max(lock.blockedUntil, block);
    if (reason == null || hold.session == null) return;
    hold.session.say(hold.id, SessionEvent.newBuilder().setLost(
        LeaseLost.newBuilder().setReason(reason).setMessage("as the test says")));
  }

  private List<Holder> holders(Asked asked) {
    return held(hold -> asked.names(hold.name())).stream().limit(MOST_HOLDERS).map(Hold::shown).distinct().toList();
  }

  private String inTheWay(Asked asked) {
    String owners = holders(asked).stream().map(Holder::getOwner).collect(Collectors.joining(", "));
    return "lock \"" + asked.holds.get(0).spec.getKey() + "\" is not free: held by "
        + (owners.isEmpty() ? "nobody; it is blocked, or others wait" : owners);
  }

  private void refuse(Asked asked, RefusalReason reason, String message, long now) {
    Refusal.Builder refusal = Refusal.newBuilder().setReason(reason).setMessage(message);
    if (reason == RefusalReason.REFUSAL_REASON_LOCK_HELD || reason == RefusalReason.REFUSAL_REASON_WAIT_TIMEOUT) {
      long left = asked.holds.stream().mapToLong(hold -> lock(hold.name()).blockedUntil - now).max().orElse(0);
      refusal.addAllHolders(holders(asked)).setRetryAfter(Durations.wire(Math.max(left, 0)));
    }
    for (Hold hold : asked.holds) {
      if (hold.session != null) hold.session.say(hold.id, SessionEvent.newBuilder().setRefused(refusal));
    }
  }
}
