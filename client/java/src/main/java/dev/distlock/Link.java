// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import dev.distlock.v1.*;
import java.util.*;

/** A session with a broker, or the place for the next one; and the commands that it has not sent yet. */
final class Link {
  static final int FRAME = 8;  // tag and length of a command in its message, at most
  static final int MESSAGE_BYTES = 64 << 10;  // before the broker has told its limit
  static final int MOST_AHEAD = 256;  // commands without an event, where the broker tells no limit
  static final long LEAST_PAUSE = 10 * Clock.MILLI;

  /** The ids of a command that is sent and has had no event. */
  private record Unanswered(long first, long last) {}

  final Belief session;
  final boolean streaming;  // there is a stream, opened or not
  int mostAhead = MOST_AHEAD;
  int maxBytes = MESSAGE_BYTES;
  boolean opened;  // the broker has answered the OpenSession
  boolean adopts;
  String store = "";  // the id of the broker's store; "": not known
  boolean authenticates;  // the broker takes another token for this session
  long proof;  // id of the command that brought the last token; 0: the call did
  boolean proofRefused;  // the broker has refused that one
  boolean draining;
  boolean leaving;  // the goodbye is said, or will be by the next message
  boolean heartbeatDue;
  long heartbeatAt = LeaseTable.NEVER;  // NEVER before the opening, and after the goodbye
  long validity = 3 * Clock.SECOND;
  long interval = Clock.SECOND;
  long drainedAt = LeaseTable.NEVER;

  private final ArrayDeque<SessionCommand> commands = new ArrayDeque<>();
  private final ArrayDeque<SessionCommand> urgent = new ArrayDeque<>();  // cancels: wait for no answers
  private final List<Unanswered> ahead = new ArrayList<>();

  /** session: null for the place of the next one. */
  Link(Belief session) {
    this.session = session;
    streaming = session != null;
  }

  /** Whether the broker has not been heard for too long: the stream must be ended. */
  boolean lapsed(long now) { return streaming && now >= session.deadline(); }
  boolean usable() { return streaming && !leaving; }  // whether commands may be added
  boolean movable() { return adopts && !leaving; }  // whether another session can adopt what this one has

  /** Whether all has been sent that there was to say: the goodbye has left. */
  boolean said() { return leaving && commands.isEmpty(); }

  /** Nothing follows the goodbye. */
  void add(SessionCommand command) {
    if (!leaving) commands.add(command);
  }

  void addUrgent(SessionCommand.Builder command) { urgent.add(command.build()); }

  /** Takes a command back that has not been sent. False: it has. */
  boolean drop(long id) { return commands.removeIf(command -> command.getId() == id); }

  /** Says goodbye behind what may be sent now. */
  void leave(SessionCommand goodbye) {
    for (int room = room(); commands.size() > room; ) commands.removeLast();
    commands.add(goodbye);
    leaving = true;
    heartbeatDue = false;
    heartbeatAt = LeaseTable.NEVER;
  }

  /** How many commands may be sent now. */
  private int room() {
    if (leaving) return commands.size();  // the goodbye, and what had room before it
    return Math.min(Math.max(mostAhead - ahead.size(), 0), commands.size());
  }

  boolean ready() { return streaming && (heartbeatDue || !urgent.isEmpty() || room() > 0); }

  /** The command with this id is not unanswered any more. Of several locks the first event counts. */
  void onEvent(long id) {
    for (int i = 0; i < ahead.size(); i++) {
      if (ahead.get(i).first > id || id > ahead.get(i).last) continue;
      ahead.remove(i);
      return;
    }
  }

  /** Makes the next message, when there is one. A heartbeat's time is taken here, before the message goes to gRPC. */
  SessionRequest pack(long now) {
    SessionRequest.Builder message = SessionRequest.newBuilder();
    int left = maxBytes;
    if (heartbeatDue) {
      SessionCommand beat = SessionCommand.newBuilder()
          .setHeartbeat(Heartbeat.newBuilder().setSeq(session.send(now))).build();
      message.addCommands(beat);
      left -= beat.getSerializedSize() + FRAME;
      heartbeatDue = false;
      heartbeatAt = now + interval;
    }
    left = take(message, urgent, urgent.size(), left);
    if (urgent.isEmpty()) take(message, commands, room(), left);
    return message.build();
  }

  /** Moves commands into a message that has so many bytes left: at least one, if it goes alone. */
  private int take(SessionRequest.Builder message, ArrayDeque<SessionCommand> queue, int most, int left) {
    for (; most > 0; most--) {
      SessionCommand next = queue.peek();
      left -= next.getSerializedSize() + FRAME;
      if (left < 0 && message.getCommandsCount() > 0) break;
      message.addCommands(queue.remove());
      if (next.hasOpen()) {
        ahead.add(new Unanswered(0, 0));  // its event has no id
      } else if (next.getId() != 0) {
        int ids = Math.max(Math.max(next.getAcquire().getLocksCount(), next.getAdopt().getHoldCount()), 1);
        ahead.add(new Unanswered(next.getId(), next.getId() + ids - 1));
      }
    }
    return left;
  }
}
