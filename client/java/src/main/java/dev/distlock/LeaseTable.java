// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.util.*;
import java.util.function.*;

/**
 * The state of the lock table: the leases, the commands that are not answered, and what is on its way back. LockTable
 * says what the table is.
 */
abstract class LeaseTable {
  static final long NEVER = Long.MAX_VALUE;
  private static final long ANSWER_GRACE = Clock.SECOND / 2;  // beyond a bounded wait, when the broker stays silent
  private static final long LEAST_WAIT = Clock.MILLI;  // 0 would turn a bounded wait into one try

  /**
   * brokers: how many are known. unreachableAfter: how long a request looks for one; 0: by its wait. onDraining: told
   * how long the broker goes on, when it goes down and not all can follow.
   */
  record Config(String address, int brokers, String label, long unreachableAfter, LongConsumer onDraining) {}

  /** The answer to a command; without anything it is done. broken: the stream ended without one. */
  record Reply(Denial denial, Grant grant, ReleaseOutcome outcome, boolean broken) {
    static Reply of(Denial denial, Grant grant) { return new Reply(denial, grant, ReleaseOutcome.UNKNOWN, false); }
  }

  /** A command that waits for its answer, but for acquires. */
  record Question(Link link, Consumer<Reply> heard) {}

  /**
   * A lease on its way back: released in each session that may have it. Without an answer, a later session adopts it
   * under `key`, and releases it then.
   */
  static final class Giving {
    final Lease lease;
    final boolean lapsed;
    Consumer<ReleaseOutcome> told;  // the outcome, when all have answered; may be null
    String key;
    int missing;
    boolean broken;
    ReleaseOutcome outcome = ReleaseOutcome.ALREADY_GONE;

    Giving(Lease lease, boolean lapsed, Consumer<ReleaseOutcome> told) {
      this.lease = lease;
      this.lapsed = lapsed;
      this.told = told;
      key = lease.moveKey;
    }
  }

  final Config config;
  final Link[] links = {new Link(null), new Link(null)};
  int present;  // index of the link for new acquires
  List<Runnable> effects = new ArrayList<>();  // what the program is to hear, once the mutex is free

  long now;  // of this turn
  final Map<Long, Lease> live = new LinkedHashMap<>();  // by id, in any phase but ENDED
  final Map<Long, Question> asked = new HashMap<>();
  List<Giving> leftovers = new ArrayList<>();  // that no session could take back
  final String prefix = secret();  // of the request_ids of this table
  long nextId = 1;
  int sessions;  // opened so far
  boolean closed;
  boolean moving;
  long endsAt = NEVER;  // the next deadline of a lease, or end of a wait, is not before
  long movesAt = NEVER;
  Denial lastFailure = Denial.NONE;

  LeaseTable(Config config) { this.config = config; }
  static String secret() { return UUID.randomUUID().toString(); }
  void at(long time) { now = time; }  // begins a turn: all that follows happens at this time
  Link link() { return links[present]; }  // the one for new acquires

  boolean isDrained() { return live.isEmpty() && asked.isEmpty() && leftovers.isEmpty(); }
  boolean isMoving() { return moving || !leftovers.isEmpty(); }  // leases wait for a session that has or frees them

  long takeIds(int count) {
    nextId += count;
    return nextId - count;
  }

  void moveAt(long at) { movesAt = Math.min(movesAt, at); }  // has sendMoves called then

  <T> void tell(Consumer<T> told, T what) {
    if (told != null) effects.add(() -> told.accept(what));
  }

  void tellDraining(long left) { effects.add(() -> config.onDraining.accept(left)); }

  /** Sends a command whose answer somebody hears, or that the stream broke before; its id. */
  long ask(Question question, SessionCommand.Builder command) {
    long id = takeIds(1);
    asked.put(id, question);
    question.link.add(command.setId(id).build());
    return id;
  }

  /** False: that was no command which was asked. */
  boolean answer(long id, Reply reply) {
    Question question = asked.get(id);
    if (question == null) return false;
    question.heard.accept(reply);
    asked.remove(id);
    return true;
  }

  /** The living leases at this moment, in their order; they may end meanwhile. */
  List<Lease> leases() { return List.copyOf(live.values()); }
  boolean any(Predicate<Lease> is) { return live.values().stream().anyMatch(is); }

  /** The requests that are not answered, in their order. */
  List<Request> waiting() {
    List<Request> requests = new ArrayList<>();
    for (Lease lease : live.values()) {
      boolean answered = lease.phase.compareTo(Lease.Phase.GRANTED) > 0;
      if (!answered && lease.request.leases.get(0) == lease) requests.add(lease.request);
    }
    return requests;
  }

  void strand(Request request) {
    request.unsend();
    request.stranded = Math.min(request.stranded, now);
    schedule(request);
  }

  /** Sees that a waiting request is given up in time. */
  void schedule(Request request) { endsAt = Math.min(endsAt, givenUpAt(request)); }

  /** When a request has waited for too long: for its answer, or for a broker to be found. */
  long givenUpAt(Request request) {
    boolean bounded = request.waitUntil != NEVER;
    if (request.stranded == NEVER) return bounded ? request.waitUntil + ANSWER_GRACE : NEVER;
    long patience = config.unreachableAfter();
    if (patience > 0) return Math.min(request.waitUntil, request.stranded + patience);
    if (bounded) return request.waitUntil;
    return request.stranded + (request.requestId.isEmpty() ? 1 : 10) * Clock.SECOND;
  }

  void refuse(Request request, Denial denial) {
    for (Lease lease : request.leases) {
      live.remove(lease.id);
      lease.phase = Lease.Phase.ENDED;
    }
    tell(request.answer, denial);
    request.answer = null;
  }

  /** Tells the broker that this request is given up. Grants that are on their way go back by themselves. */
  void withdraw(Request request) {
    Link link = request.link();
    if (link == null || !link.usable() || link.drop(request.first())) return;  // dropped: the broker never heard of it
    for (Lease lease : request.leases) {  // each: the grants of some may be on their way
      if (lease.phase == Lease.Phase.GRANTED) {
        sendRelease(link, lease.id, new Giving(lease, false, null));
      } else if (lease.phase == Lease.Phase.WAITING) {
        link.addUrgent(SessionCommand.newBuilder().setCancel(CancelAcquire.newBuilder().setAcquireId(lease.id)));
      }
    }
  }

  /** Asks the present session for a request's locks, unless it must wait for something. */
  void send(Request request) {
    Link link = link();
    Lease first = request.leases.get(0);
    // The same owner holds the lock through another session: it would wait for itself here.
    if (moving && any(held -> held.isHeld() && held.link != link && first.isReentryOf(held))) return;
    AcquireLocks.Builder acquire = AcquireLocks.newBuilder().setRequestId(request.requestId);
    for (Lease lease : request.leases) {
      acquire.addLocks(request.waitUntil == NEVER || request.requestId.isEmpty() ? lease.spec
          : lease.spec.toBuilder().setMaxWait(Durations.wire(Math.max(request.waitUntil - now, LEAST_WAIT))).build());
    }
    SessionCommand command = SessionCommand.newBuilder().setId(request.first()).setAcquire(acquire).build();
    int bytes = command.getSerializedSize() + Link.FRAME;
    if (bytes <= link.maxBytes) {
      request.leases.forEach(lease -> lease.link = link);
      link.add(command);
    } else if (link.opened) {  // else it goes when the broker has told its limit
      refuse(request, Denial.of("INVALID_ARGUMENT", "the request has " + bytes + " bytes, and this broker takes "
          + link.maxBytes + ": ask for fewer locks at once"));
    }
  }

  void sendHeldBack() {
    if (!link().usable()) return;
    for (Request request : waiting()) {
      if (request.link() == null) send(request);
    }
  }

  /** Those of a reentrant lease that are still held; of another one, itself. */
  List<Lease> holdsOf(Lease lease) {
    if (!lease.spec.getReentrant()) return List.of(lease);
    return live.values().stream().filter(other -> other.isHeld() && lease.same(other)).toList();
  }

  void sendRelease(Link link, long acquireId, Giving back) {
    back.missing++;
    ask(new Question(link, reply -> returned(back, reply)), SessionCommand.newBuilder()
        .setRelease(ReleaseLease.newBuilder().setAcquireId(acquireId).setLapsed(back.lapsed)));
  }

  void returned(Giving back, Reply reply) {
    boolean gone = reply.denial != null && reply.denial.is("NOT_HOLDER");
    back.missing--;
    back.broken |= reply.broken;
    back.outcome = back.outcome.better(gone ? ReleaseOutcome.ALREADY_GONE : reply.outcome);
    if (back.missing > 0) return;
    tell(back.told, back.outcome);
    if (back.broken && back.outcome == ReleaseOutcome.UNKNOWN) leaveOver(back, 0);
  }

  /** For the next session, which adopts the lease and releases it then. */
  void leaveOver(Giving back, long at) {
    if (closed || back.lease.leaseId.isEmpty()) return;
    if (any(hold -> hold != back.lease && hold.isHeld() && hold.same(back.lease))) return;  // those move it
    if (back.key.isEmpty()) back.key = secret();
    back.told = null;
    back.broken = false;
    back.outcome = ReleaseOutcome.ALREADY_GONE;
    leftovers.add(back);
    moveAt(at);
  }

  /** The session that was asked to adopt the lease and has not answered; null: none. */
  Link adopter(Lease lease) {
    Question question = asked.get(lease.toId);
    return question == null ? null : question.link;
  }

  /**
   * Final. The sessions that may have the lease are to free it, and told hears the outcome. gone: its own has it no
   * more. cause: null when the program has given it back, which is not told then.
   */
  void end(Lease lease, LossCause cause, String message, boolean gone, Consumer<ReleaseOutcome> told) {
    Giving back = new Giving(lease, cause != null, told);
    if (lease.link != null && !gone) sendRelease(lease.link, lease.id, back);
    Link to = adopter(lease);
    if (to != null) {
      sendRelease(to, lease.toId, back);
      asked.remove(lease.toId);
    }
    if (back.missing == 0 && !gone) {
      back.missing = 1;
      returned(back, new Reply(null, null, ReleaseOutcome.UNKNOWN, true));
    }
    live.remove(lease.id);
    lease.cause = cause;
    lease.message = message;
    lease.phase = Lease.Phase.ENDED;  // after the cause, for those who read without the mutex
    lease.downgrades.forEach(one -> tell(one, Denial.ENDED));
    if (moving && lease.spec.getReentrant()) moveAt(0);  // an acquire of that owner may have waited for its arrival
    if (cause != null) effects.add(lease.onLost);
  }

  /** Ends the lease if its deadline has passed. True: it is still held. */
  boolean notice(Lease lease) {
    if (!lease.isHeld() || now < lease.deadline) return lease.isHeld();
    Link link = lease.link == null ? link() : lease.link;
    boolean heard = link.opened && !link.lapsed(now);
    if (heard && !lease.risk.isEmpty()) {
      end(lease, LossCause.EXPIRED, "could not be renewed in time: " + lease.risk, false, null);
    } else if (heard && lease.link != null && Belief.span(lease.spec.getMaxHold()) > 0) {
      // While the session is alive and no renewal has failed, only max_hold lets the deadline of one lease pass.
      end(lease, LossCause.MAX_HOLD, "held for max_hold", false, null);
    } else {
      end(lease, LossCause.LAPSED, "the broker was not heard until the deadline", false, null);
    }
    return false;
  }
}
