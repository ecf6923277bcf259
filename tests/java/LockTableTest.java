// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Duration;
import dev.distlock.v1.Grant;
import dev.distlock.v1.LockSpec;
import dev.distlock.v1.SessionCommand;
import dev.distlock.v1.SessionEvent;
import dev.distlock.v1.SessionOpened;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The engine alone: rules of time that no case of client/conformance can see from outside. */
final class LockTableTest {
  private static final long SECOND = Clock.SECOND;
  private static final Duration VALIDITY = Duration.newBuilder().setSeconds(3).build();

  private final LockTable table = new LockTable(new LeaseTable.Config("a", 1, "test", 0, left -> { }));
  private final List<String> answers = new ArrayList<>();
  private long now = 100 * SECOND;

  private void pass(long time) {
    now += time;
    table.at(now);
  }

  private Lease ask(String key, long wait, boolean resume) {
    Request request = table.acquire(List.of(LockSpec.newBuilder().setKey(key).setResume(resume).build()), wait,
        denial -> answers.add(key + ": " + (denial == null ? "GRANTED" : denial.reason())), null);
    return request.leases.get(0);
  }

  private Link open() {
    table.at(now);
    Link link = table.start();
    link.pack(now);
    table.onEvent(link, SessionEvent.newBuilder().setOpened(
        SessionOpened.newBuilder().setValidity(VALIDITY).addFeatures("adopt")).build());
    return link;
  }

  private Lease held(Link link, String key, boolean resume) {
    Lease lease = ask(key, LockTable.FOREVER, resume);
    table.onEvent(link, SessionEvent.newBuilder().setId(lease.id).setGranted(
        Grant.newBuilder().setLeaseId("secret").setFencingToken(7).setValidFor(VALIDITY)).build());
    assertTrue(lease.isHeld());
    return lease;
  }

  private List<SessionCommand> sent(Link link) {
    List<SessionCommand> commands = new ArrayList<>();
    while (link.ready()) commands.addAll(link.pack(now).getCommandsList());
    return commands;
  }

  private List<String> told() {
    table.effects.forEach(Runnable::run);
    table.effects = new ArrayList<>();
    return answers;
  }

  @Test
  void whileLeasesMoveABrokerHasAThirdOfTheValidityToAnswer() {
    Link first = open();
    Lease lease = held(first, "k", true);
    table.onBroken(first, LossCause.DISCONNECTED, "broken", null);
    assertTrue(lease.isHeld() && table.isAtRisk(lease));
    assertEquals(now + SECOND, table.start().session.deadline());
  }

  @Test
  void withNothingToLoseABrokerHasLonger() {
    table.at(now);
    assertEquals(now + 5 * SECOND, table.start().session.deadline());
  }

  @Test
  void unreachableCountsFromWhenNoBrokerHasTheRequest() {
    Link link = open();
    ask("try", LockTable.ONE_TRY, false);
    ask("forever", LockTable.FOREVER, false);
    pass(60 * SECOND - 1);
    table.onBroken(link, LossCause.LAPSED, "broken", null);
    pass(SECOND - 1);
    table.tick();
    assertEquals(List.of(), told());
    pass(1);
    table.tick();
    assertEquals(List.of("try: UNREACHABLE"), told());
    pass(9 * SECOND);
    table.tick();
    assertEquals(List.of("try: UNREACHABLE", "forever: UNREACHABLE"), told());
  }

  @Test
  void aDeadlineThatPassedIsTheCauseAlsoWhenTheStreamEnds() {
    Link link = open();
    Lease lease = held(link, "k", false);
    pass(3 * SECOND);
    table.onBroken(link, LossCause.DISCONNECTED, "broken", null);
    assertEquals(LossCause.LAPSED, lease.cause);
  }

  @Test
  void whatIsReleasedWithoutASessionIsAdoptedAndReleasedByTheNext() {
    Link first = open();
    Lease lease = held(first, "k", true);
    table.onBroken(first, LossCause.DISCONNECTED, "broken", null);
    List<ReleaseOutcome> outcomes = new ArrayList<>();
    table.release(lease, outcomes::add);
    assertFalse(lease.isHeld());
    assertNull(lease.cause);
    told();
    assertEquals(List.of(ReleaseOutcome.UNKNOWN), outcomes);
    List<SessionCommand> commands = sent(open());
    assertEquals("secret", commands.get(0).getAdopt().getLeaseId());
    assertEquals(commands.get(0).getId(), commands.get(1).getRelease().getAcquireId());
  }

  @Test
  void theBetterOfTwoOutcomesCounts() {
    ReleaseOutcome gone = ReleaseOutcome.ALREADY_GONE;
    assertEquals(ReleaseOutcome.RELEASED, gone.better(ReleaseOutcome.RELEASED));
    assertEquals(ReleaseOutcome.RELEASED, ReleaseOutcome.RELEASED.better(ReleaseOutcome.UNKNOWN));
    assertEquals(ReleaseOutcome.STILL_HELD, ReleaseOutcome.UNKNOWN.better(ReleaseOutcome.STILL_HELD));
    assertEquals(ReleaseOutcome.UNKNOWN, gone.better(ReleaseOutcome.UNKNOWN));
    assertEquals(gone, gone.better(gone));
  }
}
