// SPDX-License-Identifier: Apache-2.0
//! One session with a broker: until when it may be believed ("Belief" in session.md), and what is still to be sent.

use std::collections::{BTreeMap, VecDeque};

use prost::encoding::message::encoded_len;
use prost_types::Duration;

use crate::v1::{CancelAcquire, Heartbeat, SessionCommand, SessionOpened, SessionRequest, session_command::Command};

/// Nanoseconds of a clock that goes on while the machine is suspended.
pub type Nanos = i64;

pub const NEVER: Nanos = i64::MAX; // later than any moment
pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;
const LONGEST: i64 = 365 * 24 * 3_600; // in seconds, longer than any promise: keeps sums of times in range

/// 0 for an unset or negative duration of the wire.
pub fn span(wire: &Option<Duration>) -> Nanos {
    wire.as_ref().map_or(0, |d| (d.seconds.clamp(0, LONGEST) * SECOND + i64::from(d.nanos)).max(0))
}

pub fn wire(span: Nanos) -> Option<Duration> {
    Some(Duration { seconds: span / SECOND, nanos: (span % SECOND) as i32 })
}

pub fn nanos(duration: std::time::Duration) -> Nanos {
    duration.as_nanos().min((LONGEST * SECOND) as u128) as Nanos
}

/// A session, or the place for the next one.
#[derive(Default)]
pub struct Link {
    pub session: u64, // 0: there is no stream
    pub address: String,
    pub shown: String, // the authorization that the broker was shown last
    pub opened: bool,  // the broker has answered the OpenSession
    pub adopts: bool,
    pub authenticates: bool, // the broker takes another token for this session
    pub draining: bool,
    pub drained_at: Nanos,
    pub leaving: bool, // the goodbye is said, or will be by the next message
    pub beat_at: Nanos,
    pub beat_due: bool,
    pub validity: Nanos,
    pub deadline: Nanos, // the broker has given the session up then, too; one that has passed stays
    pub max_bytes: usize,
    acked: i64, // the newest heartbeat that is answered; -1: not even OpenSession is
    interval: Nanos,
    last_seq: i64,
    sent: BTreeMap<i64, Nanos>, // when each of the last 64 heartbeats was sent; OpenSession is 0
    pub commands: VecDeque<SessionCommand>,
    urgent: VecDeque<SessionCommand>, // these go before the others, and wait for no answers: heartbeats, cancels
    ahead: BTreeMap<i64, i64>,        // the first and last id of each command that is sent and has had no event
    max_ahead: usize,
}

impl Link {
    /// A stream that is about to begin, and is given up when it is not opened within `patience`.
    pub fn start(session: u64, address: String, now: Nanos, patience: Nanos) -> Link {
        let (sent, acked, deadline) = (BTreeMap::from([(0, now)]), -1, now + patience);
        let (beat_at, drained_at, max_bytes, max_ahead) = (NEVER, NEVER, 64 << 10, 256); // until the broker has told
        Link { session, address, deadline, beat_at, drained_at, max_bytes, max_ahead, acked, sent, ..Link::default() }
    }

    pub fn open(&mut self, opened: &SessionOpened, now: Nanos) {
        let or = |told: i32, other: usize| if told > 0 { told as usize } else { other };
        let has = |feature: &str| opened.features.iter().any(|name| name == feature);
        (self.opened, self.adopts, self.authenticates) = (true, has("adopt"), has("authenticate"));
        self.ahead.remove(&0);
        self.max_ahead = or(opened.max_unanswered, self.max_ahead);
        self.max_bytes = or(opened.max_message_bytes, self.max_bytes);
        self.validity = span(&opened.validity);
        self.interval = span(&opened.heartbeat_interval).max(10 * MS);
        let sent = self.last_sent();
        self.ack(0, sent + self.validity, now);
        if !self.leaving {
            self.beat_at = sent + self.interval;
            self.beat_due = now - sent > self.validity / 6;
        }
    }

    pub fn usable(&self) -> bool {
        self.session > 0 && !self.leaving
    }

    /// Whether the broker has not been heard for too long: the stream must be ended.
    pub fn lapsed(&self, now: Nanos) -> bool {
        self.session > 0 && now >= self.deadline
    }

    fn last_sent(&self) -> Nanos {
        self.sent.get(&self.last_seq).copied().unwrap_or_default()
    }

    /// The end of a promise that answers heartbeat `seq`; 0 for one that is forgotten or was never sent.
    pub fn deadline_of(&self, seq: i64, valid_for: &Option<Duration>) -> Nanos {
        self.sent.get(&seq).map_or(0, |sent| sent + span(valid_for))
    }

    /// Takes the promise that answers heartbeat `seq`, and tells whether it extends anything.
    pub fn ack(&mut self, seq: i64, promised: Nanos, now: Nanos) -> bool {
        if now >= self.deadline || promised == 0 || seq <= self.acked {
            return false;
        }
        // The grace of the opening is no promise: the first answer replaces it.
        self.deadline = if self.acked >= 0 { promised.max(self.deadline) } else { promised };
        self.acked = seq;
        true
    }

    /// Whether a heartbeat is unanswered, and half of what was left until `deadline` when it was sent is gone.
    pub fn overdue(&self, deadline: Nanos, now: Nanos) -> bool {
        let first = self.sent.range((self.acked + 1).max(1)..).next();
        first.is_some_and(|(_, sent)| now - sent >= (deadline - sent) / 2)
    }

    /// Sees that a heartbeat leaves before half of what is left until the deadline is gone.
    pub fn beat_before_half(&mut self, deadline: Nanos, now: Nanos) {
        if now < deadline {
            self.beat_at = self.beat_at.min(now + ((deadline - now) / 2).max(10 * MS));
        } else if self.last_seq <= self.acked.max(0) || now - self.last_sent() >= self.validity / 6 {
            self.beat_due = true; // else a recent one that is not answered yet is enough
        }
        (self.beat_at, self.beat_due) = if self.leaving { (NEVER, false) } else { (self.beat_at, self.beat_due) };
    }

    /// Nothing follows the goodbye.
    pub fn add(&mut self, id: i64, command: Command) {
        if self.usable() {
            self.commands.push_back(SessionCommand { id, command: Some(command) });
        }
    }

    /// Withdraws an acquire: takes it back when it has not been sent, and true.
    pub fn take_back(&mut self, id: i64) -> bool {
        let found = self.commands.iter().position(|command| command.id == id);
        found.map(|at| self.commands.remove(at)).is_some()
    }

    pub fn cancel(&mut self, acquire_id: i64) {
        let command = Some(Command::Cancel(CancelAcquire { acquire_id }));
        self.urgent.push_back(SessionCommand { id: 0, command });
    }

    /// Says goodbye behind what may be sent now, so that the broker frees what it has not heard of.
    pub fn leave(&mut self) {
        self.commands.truncate(self.max_ahead.saturating_sub(self.ahead.len()));
        self.add(0, Command::Goodbye(Default::default()));
        (self.leaving, self.beat_due, self.beat_at) = (true, false, NEVER);
    }

    /// The command with this id is not unanswered any more. Of several locks the first event counts.
    pub fn on_event(&mut self, id: i64) {
        if let Some((&first, &last)) = self.ahead.range(..=id).next_back()
            && id <= last
        {
            self.ahead.remove(&first);
        }
    }

    fn may_send(&self) -> bool {
        !self.commands.is_empty() && (self.leaving || self.ahead.len() < self.max_ahead)
    }

    pub fn ready(&self) -> bool {
        self.beat_due || !self.urgent.is_empty() || self.may_send()
    }

    /// Makes the next message. A heartbeat's time is taken here, before the message goes to gRPC.
    pub fn pack(&mut self, now: Nanos) -> Option<SessionRequest> {
        if std::mem::take(&mut self.beat_due) {
            (self.last_seq, self.beat_at) = (self.last_seq + 1, now + self.interval);
            self.sent.insert(self.last_seq, now);
            self.sent.remove(&(self.last_seq - 64));
            let command = Some(Command::Heartbeat(Heartbeat { seq: self.last_seq }));
            self.urgent.push_front(SessionCommand { id: 0, command });
        }
        let (mut commands, mut bytes) = (Vec::new(), 0);
        while !self.urgent.is_empty() || self.may_send() {
            let queue = if self.urgent.is_empty() { &mut self.commands } else { &mut self.urgent };
            bytes += encoded_len(1, &queue[0]);
            if bytes > self.max_bytes && !commands.is_empty() {
                break;
            }
            let Some(next) = queue.pop_front() else { break };
            let (first, count) = match &next.command {
                Some(Command::Open(_)) => (0, 1), // its answer has no id
                Some(Command::Acquire(acquire)) => (next.id, acquire.locks.len() as i64),
                Some(Command::Adopt(adopt)) => (next.id, i64::from(adopt.hold_count)),
                _ => (next.id, 1),
            };
            if next.id != 0 {
                self.ahead.insert(first, first + count - 1);
            }
            commands.push(next);
        }
        (!commands.is_empty()).then_some(SessionRequest { commands })
    }
}
