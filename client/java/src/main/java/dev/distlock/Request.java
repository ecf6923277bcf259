// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.AcquireQueued;
import java.util.*;
import java.util.function.Consumer;

/** One acquire of one lock or of several, until its answer. Guarded by the table's mutex. */
final class Request {
  final List<Lease> leases = new ArrayList<>(1);
  final long asked;
  final long waitUntil;
  final String requestId;  // of its place in the queue; one try has none
  Consumer<Denial> answer;  // hears null when all are granted; null once it is answered
  Consumer<AcquireQueued> onQueued;
  long stranded = LeaseTable.NEVER;  // since when no broker has this request; NEVER: one has
  boolean turnedAway;  // refused by a draining broker

  Request(long asked, long waitUntil, String requestId, Consumer<Denial> answer, Consumer<AcquireQueued> onQueued) {
    this.asked = asked;
    this.waitUntil = waitUntil;
    this.requestId = requestId;
    this.answer = answer;
    this.onQueued = onQueued;
  }

  long first() { return leases.get(0).id; }
  Link link() { return leases.get(0).link; }  // the session that it was sent through, until it is answered

  /** No session has it. */
  void unsend() {
    for (Lease lease : leases) {
      lease.phase = Lease.Phase.WAITING;
      lease.link = null;
    }
  }
}
