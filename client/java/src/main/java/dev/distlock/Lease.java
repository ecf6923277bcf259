// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.util.*;
import java.util.function.Consumer;

/**
 * One lock, from its request to its end. Any thread may read what is volatile; token, holdCount and waited after the
 * answer; cause and message once it has ended. The rest is guarded by the table's mutex.
 */
final class Lease {
  /** A lease goes through these in order; one that is refused goes from WAITING to ENDED. */
  enum Phase {
    WAITING,  // not answered yet
    GRANTED,  // granted, but its deadline has passed already, or others of its request are missing
    HELD,     // the program has it
    ENDED
  }

  final LockSpec spec;
  final Request request;
  volatile Phase phase = Phase.WAITING;
  volatile long deadline;  // until when the lease may be believed in
  String leaseId = "";
  String store = "";  // of the session that had it last
  long token;
  int holdCount;
  long waited;
  LossCause cause;  // null: the program gave it back
  String message = "";
  Runnable onLost = () -> { };  // called once, when it ends after it was held, unless the program released it

  long id;
  String risk = "";  // why renewals fail; "": they do not
  boolean downgraded;
  boolean modeUnsure;  // a downgrade may have been carried out
  List<Consumer<Denial>> downgrades = new ArrayList<>();  // to be sent when it has arrived
  int downgrading;  // sent, not answered
  boolean stays;  // no session can adopt it
  Link link;  // the session that has it; null: its former promise is all that is left
  long toId;  // of the adoption that is asked for, or was
  String moveKey = "";  // of the adoption, until one has succeeded: a try whose answer was lost may have
  Link former;  // of a waiting one: the session it has left, until the next has its place
  boolean crossed;  // that session has granted it: to be given back there

  Lease(long id, LockSpec spec, Request request) {
    this.id = id;
    this.spec = spec;
    this.request = request;
  }

  boolean isHeld() { return phase == Phase.HELD; }

  /** The session that it has left matters no more. */
  void leaveFormer() {
    former = null;
    crossed = false;
  }

  /** Why it ends now, unless its deadline has passed before. */
  LossCause causeNow(LossCause why, long now) { return now >= deadline ? LossCause.LAPSED : why; }

  /** The names of a lock, and of one grant of it. */
  record Name(String namespace, String key, long token) {}

  Name name() { return new Name(spec.getNamespace(), spec.getKey(), token); }

  /** Whether two are holds of one reentrant lease. */
  boolean same(Lease other) {
    return this == other || spec.getReentrant() && other.spec.getReentrant() && name().equals(other.name());
  }

  boolean isReentryOf(Lease held) {
    return spec.getReentrant() && held.spec.getReentrant() && held.spec.getKey().equals(spec.getKey())
        && held.spec.getOwner().equals(spec.getOwner()) && held.spec.getNamespace().equals(spec.getNamespace());
  }

  /** As an adoption names it. */
  LockSpec asHeld() {
    LockSpec.Builder held = spec.toBuilder().clearMaxWait();
    return (downgraded ? held.setMode(LockMode.LOCK_MODE_SHARED) : held).build();
  }
}
