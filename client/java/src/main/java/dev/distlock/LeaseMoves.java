// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.util.*;
import java.util.function.Consumer;

/** Leases that move to another session: "Moving a lease" in session.md. */
abstract class LeaseMoves extends LeaseTable {
  private static final long RETRY_PAUSE = 100 * Clock.MILLI;  // of adoptions
  private static final long LONGEST_RETRY_PAUSE = 500 * Clock.MILLI;

  LeaseMoves(Config config) { super(config); }

  private static long pauseOf(Denial denial) {
    return Math.min(Math.max(Belief.span(denial.wire().getRetryAfter()), RETRY_PAUSE), LONGEST_RETRY_PAUSE);
  }

  /** This link's broker takes nothing new any more. */
  void drains(Link link) {
    link.draining = true;
    moveOn();
  }

  /**
   * Leaves the present broker, if it drains: the other link becomes the present one. While that still has a stream of
   * its own, of a broker that drains as well, this waits for its end.
   */
  void moveOn() {
    Link old = link();
    if (config.brokers() == 1 || closed || !old.streaming || !old.draining || links[1 - present].streaming) return;
    present = 1 - present;
    moving = true;
    for (Request request : waiting()) {
      if (request.link() != old) continue;
      if (request.requestId.isEmpty()) {
        withdraw(request);
      } else if (!old.drop(request.first())) {  // the next broker takes over its place
        for (Lease lease : request.leases) {
          lease.former = old;
          lease.crossed = lease.phase == Lease.Phase.GRANTED;
        }
      }
      strand(request);
    }
  }

  /** Asks the present session to adopt all that it does not hold, and to free what nobody could free. */
  void sendMoves() {
    movesAt = NEVER;
    moving = false;
    Link link = link();
    boolean ready = link.opened && !link.leaving && !link.draining;
    Map<Lease.Name, List<Lease>> groups = new LinkedHashMap<>();  // the holds of each reentrant lease
    for (Lease lease : leases()) {
      if (!lease.isHeld() || lease.link == link) continue;
      moving = true;
      boolean bound = lease.stays || adopter(lease) != null || lease.link != null && !lease.link.movable();
      if (!ready || bound) continue;
      if (isElsewhere(lease, link)) {
        tellDrained(lease);  // nobody there has heard of it
      } else if (!link.adopts) {
        stay(lease);
      } else if (lease.spec.getReentrant()) {
        groups.computeIfAbsent(lease.name(), name -> new ArrayList<>()).add(lease);
      } else {
        move(link, List.of(lease));
      }
    }
    groups.values().forEach(holds -> move(link, holds));
    if (ready) freeLeftovers(link);
    sendHeldBack();
  }

  private static SessionCommand.Builder adopt(Lease lease, String key, int holds) {
    return SessionCommand.newBuilder().setAdopt(AdoptLease.newBuilder()
        .setLeaseId(lease.leaseId).setLock(lease.asHeld()).setRequestId(key).setHoldCount(holds));
  }

  /** The broker of this link has another store, where nobody has heard of the lease. */
  private static boolean isElsewhere(Lease lease, Link link) {
    return !lease.store.isEmpty() && !link.store.isEmpty() && !lease.store.equals(link.store);
  }

  /** Has the holds of one reentrant lease, or another lease, adopted. */
  private void move(Link link, List<Lease> holds) {
    String key = "";
    for (Lease hold : holds) {
      // The adoption must name the mode, which is known when the downgrade is answered.
      if (hold.downgrading > 0) return;
      if (key.isEmpty()) key = hold.moveKey;
    }
    if (key.isEmpty()) key = secret();
    long first = takeIds(holds.size());
    for (int i = 0; i < holds.size(); i++) {
      Lease hold = holds.get(i);
      hold.toId = first + i;
      hold.moveKey = key;
      asked.put(hold.toId, new Question(link, reply -> onReply(link, hold, reply)));
    }
    link.add(adopt(holds.get(0), key, holds.size()).setId(first).build());
  }

  /**
   * Adopts and releases: an adoption that was under way may have changed the lease_id. Nothing believes in these, so
   * one that is refused matters only when it may succeed later; its release then finds nothing.
   */
  private void freeLeftovers(Link link) {
    List<Giving> left = leftovers;
    leftovers = new ArrayList<>();
    for (Giving back : left) {
      if (isElsewhere(back.lease, link)) continue;  // its ttl ends it
      if (!link.adopts) {
        ask(new Question(link, reply -> { }), SessionCommand.newBuilder()
            .setRelease(ReleaseLease.newBuilder().setLeaseId(back.lease.leaseId).setLapsed(back.lapsed)));
        continue;
      }
      Consumer<Reply> again = reply -> {
        Denial denial = reply.denial();
        boolean mayPass = denial != null && !denial.isPermanent() && !denial.is("NOT_HOLDER", Denial.UNREACHABLE);
        if (mayPass) leaveOver(back, now + pauseOf(denial));
      };
      sendRelease(link, ask(new Question(link, again), adopt(back.lease, back.key, 1)), back);
    }
  }

  private void onReply(Link link, Lease lease, Reply reply) {
    if (reply.grant() != null) onAdopted(link, lease, reply.grant());
    else if (reply.denial() != null) onNotAdopted(link, lease, reply.denial());
  }

  /** From now on only this session's promises count, also when they are shorter. */
  private void onAdopted(Link link, Lease lease, Grant grant) {
    if (!notice(lease)) return;  // the former promise is over: that has released it here as well
    live.remove(lease.id);
    asked.remove(lease.toId);
    lease.id = lease.toId;
    live.put(lease.id, lease);
    lease.link = link;
    lease.moveKey = "";
    lease.risk = "";
    lease.leaseId = grant.getLeaseId();
    if (!link.store.isEmpty()) lease.store = link.store;
    if (grant.getFencingToken() != lease.token) {
      end(lease, LossCause.TAKEN, "it was adopted under another fencing token", false, null);
      return;
    }
    lease.deadline = link.session.deadlineOf(grant.getEchoSeq(), grant.getValidFor());
    if (!notice(lease)) return;
    endsAt = Math.min(endsAt, lease.deadline);
    beatBeforeHalf(link, lease.deadline);
    sendDowngrades(lease);
    // An acquire waited for its arrival; or that broker drains already.
    if (lease.spec.getReentrant() || link != link()) moveAt(now);
  }

  private void onNotAdopted(Link link, Lease lease, Denial denial) {
    String key = lease.moveKey;
    for (Lease hold : holdsOf(lease)) {
      if (adopter(hold) == null || !hold.moveKey.equals(key)) continue;  // the refusal is that of all holds
      asked.remove(hold.toId);
      if (denial.is("NOT_HOLDER")) {
        end(hold, LossCause.TAKEN, "it could not be taken over: " + denial.message(), true, null);
      } else if (denial.is("NOT_SUPPORTED") && hold.modeUnsure) {
        hold.modeUnsure = false;
        hold.downgraded = !hold.downgraded;
        moveAt(now);
      } else if (denial.isPermanent()) {
        stay(hold);
      } else {
        moveAt(now + pauseOf(denial));
      }
    }
    if (denial.is("DRAINING")) drains(link);
  }

  /** No broker can adopt it. It stays where it is, and is lost when that broker goes. */
  private void stay(Lease lease) {
    lease.stays = true;
    lease.moveKey = "";
    sendDowngrades(lease);
    tellDrained(lease);
  }

  /** The program hears of the drain after all, once: something does not move. */
  private void tellDrained(Lease lease) {
    if (lease.link != null && lease.link.drainedAt != NEVER) {
      tellDraining(Math.max(lease.link.drainedAt - now, 0));
      lease.link.drainedAt = NEVER;
    }
  }

  /**
   * Whether a lease may be believed in after the end of its stream, until its last promise ends. The broker keeps the
   * lock for as long, unless it was told to free it at once.
   */
  boolean survives(Lease lease) {
    if (closed || lease.stays || lease.link == null || !lease.link.adopts || now >= lease.deadline) return false;
    return lease.spec.getOnDisconnect() != OnDisconnect.ON_DISCONNECT_RELEASE
        && (lease.spec.getResume() || !lease.moveKey.isEmpty() || lease.link != link());
  }

  void orphan(Lease lease, String why) {
    lease.link = null;
    lease.risk = why.isEmpty() ? "its session ended" : why;
    moving = true;
    moveAt(0);
  }

  /** Sees that a heartbeat leaves before half of what is left until the deadline is gone. */
  void beatBeforeHalf(Link link, long deadline) {
    if (link.leaving) return;
    if (now < deadline) {
      link.heartbeatAt = Math.min(link.heartbeatAt, now + Math.max((deadline - now) / 2, Link.LEAST_PAUSE));
    } else if (link.session.allAnswered() || now - link.session.lastSentAt() >= link.validity / 6) {
      link.heartbeatDue = true;  // else a recent one that is not answered yet is enough
    }
  }

  /** Sends what waited for the lease's arrival. */
  void sendDowngrades(Lease lease) {
    if (lease.link == null || !lease.moveKey.isEmpty() && !lease.stays) return;
    for (Consumer<Denial> told : lease.downgrades) {
      List<Lease> holds = holdsOf(lease);
      holds.forEach(hold -> hold.downgrading++);
      ask(new Question(lease.link, reply -> onDowngraded(holds, told, reply.denial())),
          SessionCommand.newBuilder().setDowngrade(DowngradeLease.newBuilder().setAcquireId(lease.id)));
    }
    lease.downgrades = new ArrayList<>();
  }

  private void onDowngraded(List<Lease> holds, Consumer<Denial> told, Denial denial) {
    holds.forEach(hold -> hold.downgrading--);
    for (Lease hold : holdsOf(holds.get(0))) {
      hold.downgraded |= denial == null;
      hold.modeUnsure |= denial != null;
    }
    tell(told, denial);
    if (moving) sendMoves();
  }

  /**
   * Says goodbye behind what may be sent now, so that the broker ends the stream in good order and frees what it has
   * not heard of. Waiting requests go to the next stream.
   */
  void leave(Link link) {
    link.leave(SessionCommand.newBuilder().setGoodbye(Goodbye.getDefaultInstance()).build());
    for (Request request : waiting()) {
      if (request.link() == link) request.unsend();
    }
  }

  /** Leaves a former broker that has nothing of this client any more. */
  void leaveWhenEmpty(Link link) {
    if (link == link() || !link.usable() || any(lease -> lease.link == link || lease.former == link)) return;
    if (asked.values().stream().noneMatch(question -> question.link() == link)) leave(link);
  }

  /** Has a former session free what it has granted, but what has gone to another one: that is never believed in. */
  void giveUp(Link link, long id) {
    link.add(SessionCommand.newBuilder().setId(takeIds(1))
        .setRelease(ReleaseLease.newBuilder().setAcquireId(id)).build());
  }
}
