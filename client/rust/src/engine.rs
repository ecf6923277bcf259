// SPDX-License-Identifier: Apache-2.0
//! The engine of a client: one table of leases, and what may happen to it. A state machine without IO: each call gets
//! the time; what the program is to hear goes to `effects`, and `Link::pack` has what brokers are told. Its rules are
//! those of proto/distlock/v1/session.md.
//!
//! There are two links, each with a stream or none. New acquires go through the present one. When its broker drains and
//! another one is known, the other link becomes the present one, and leases follow by AdoptLease.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, atomic::AtomicI64, atomic::Ordering::Relaxed};
use std::time::Duration;

use prost::encoding::message::encoded_len;
use tokio::sync::watch;
use tokio_retry::strategy::{ExponentialBackoff, jitter};

use crate::error::{Lost, Refusal, UNREACHABLE};
use crate::link::{Link, MS, NEVER, Nanos, SECOND, nanos, span, wire};
use crate::v1::{session_command::Command, session_event::Event, *};

pub const GIVEN_BACK: &str = "GIVEN_BACK";

pub type Told<T> = Box<dyn FnOnce(T) + Send>;
pub type Granted = Result<Vec<Arc<Seen>>, Refusal>;
pub type Heard = Box<dyn FnOnce(&mut Table, Answer, Nanos) + Send>;

/// The answer to a command: `Done` with the outcome of a release; `Broken`, when its stream ended before.
pub enum Answer {
    Granted(Grant),
    Done(i32),
    Refused(Refusal),
    Broken,
}

/// The part of a held lease that may be read without the table.
#[derive(Default)]
pub struct Seen {
    pub key: String,
    pub token: i64,
    pub hold_count: i32,
    pub id: AtomicI64,
    pub deadline: AtomicI64, // until when the lease may be believed in; 0: it has ended
    pub end: OnceLock<Lost>,
    pub over: watch::Sender<bool>,
}

/// One acquire of one lock or of several, until its answer. Lock i has the id `first + i`.
#[derive(Default)]
pub struct Request {
    pub specs: Vec<LockSpec>,
    pub grants: Vec<Option<(Grant, Nanos)>>, // until the deadlines, where others are missing or one has passed
    pub answer: Option<Told<Granted>>,
    pub on_queued: Option<Told<AcquireQueued>>,
    pub wait_until: Nanos,
    pub stranded: Nanos,       // since when no broker has this request; NEVER: one has
    pub turned_away: bool,     // refused by a draining broker
    pub request_id: String,    // of its place in the queue; one try has none
    pub link: Option<usize>,   // the session that has it
    pub former: Option<usize>, // the one that it has left, until the next has its place
    pub crossed: Vec<i64>,     // what that one has granted: to be given back there
}

/// A lock that the program has.
#[derive(Default)]
pub struct Lease {
    pub spec: LockSpec,
    pub seen: Arc<Seen>,
    pub lease_id: String,
    pub link: Option<usize>,      // None: its former promise is all that is left
    pub to: Option<(usize, i64)>, // the link that was asked to adopt it, and under which id
    pub move_key: String,         // of the adoption, until one has succeeded: a try without an answer may have
    pub stays: bool,              // no session can adopt it
    pub risk: Option<String>,     // why renewals fail
    pub mode_unsure: bool,        // a downgrade may have been carried out
    pub downgrading: usize,       // sent, not answered
    // The rest is of one on its way back, released in each session that may have it.
    told: Option<Told<ReleaseOutcome>>,
    unanswered: usize,
    pub broken: bool,
    pub outcome: ReleaseOutcome,
}

/// Counts of a client's locks: held; asked for; held, while renewals or heartbeats fail or the stream has broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    pub held: usize,
    pub waiting: usize,
    pub at_risk: usize,
}

#[derive(Default)]
pub struct Table {
    pub addresses: Vec<String>,
    pub label: String,
    pub unreachable_after: Option<Nanos>,
    pub claim: Option<ProcessClaim>,
    pub draining: watch::Sender<Option<Duration>>,
    pub links: [Link; 2],
    pub present: usize,
    pub effects: Vec<Box<dyn FnOnce() + Send>>, // to be run in their order when the table's mutex is free
    pub armed: Nanos,                           // when the timer wakes
    pub closed: bool,
    pub held: BTreeMap<i64, Lease>,
    pub waiting: BTreeMap<i64, Request>,
    pub asked: BTreeMap<i64, (usize, Heard)>, // the commands that are not answered, but acquires
    pub moves_at: Nanos,
    pub ends_at: Nanos,  // the next deadline of a lease, or end of a wait, is not before
    pub validity: Nanos, // as the last session has told
    pub last_failure: Option<Refusal>,
    pub tried: usize, // addresses since the last success
    pub pauses: Option<ExponentialBackoff>,
    broker: usize, // which address is in use, or to be tried now
    backs: BTreeMap<i64, Lease>,
    last_id: i64,
    sessions: u64,
    close_by: Nanos,
    reconnect_at: Nanos, // NEVER before the first acquire
}

pub fn secret() -> String {
    format!("{:032x}", rand::random::<u128>())
}

pub fn ids<T>(table: &BTreeMap<i64, T>, is: impl Fn(&T) -> bool) -> Vec<i64> {
    table.iter().filter_map(|(&id, one)| is(one).then_some(id)).collect()
}

impl Lease {
    pub fn deadline(&self) -> Nanos {
        self.seen.deadline.load(Relaxed)
    }

    pub fn is_hold_of(&self, other: &Lease) -> bool {
        let same = self.seen.token == other.seen.token && self.seen.key == other.seen.key;
        same && self.spec.reentrant && other.spec.reentrant && self.spec.namespace == other.spec.namespace
    }
}

impl Table {
    pub fn new(addresses: Vec<String>) -> Table {
        let (moves_at, ends_at, close_by, reconnect_at) = (NEVER, NEVER, NEVER, NEVER);
        Table { addresses, moves_at, ends_at, close_by, reconnect_at, ..Table::default() }
    }

    pub fn take_ids(&mut self, count: usize) -> i64 {
        self.last_id += count as i64;
        self.last_id - count as i64 + 1
    }

    pub fn tell<T: Send + 'static>(&mut self, told: Option<Told<T>>, what: T) {
        if let Some(told) = told {
            self.effects.push(Box::new(move || told(what)));
        }
    }

    /// Sends a command whose answer somebody hears, or that the stream broke before; its id.
    pub fn ask(&mut self, l: usize, command: Command, heard: Heard) -> i64 {
        let id = self.take_ids(1);
        self.asked.insert(id, (l, heard));
        self.links[l].add(id, command);
        id
    }

    pub fn answer(&mut self, id: i64, answer: Answer, now: Nanos) -> bool {
        self.asked.remove(&id).map(|(_, heard)| heard(self, answer, now)).is_some()
    }

    /// The request that has this id, its first one, and which of its locks that is.
    pub fn request_of(&mut self, id: i64) -> Option<(&mut Request, i64, usize)> {
        let (&first, request) = self.waiting.range_mut(..=id).next_back()?;
        let part = (id - first) as usize;
        (part < request.specs.len()).then_some((request, first, part))
    }

    /// Takes all locks of `request` or none. Without `wait` until they are granted; 0 is one try. The first id.
    pub fn acquire(&mut self, mut request: Request, wait: Option<Nanos>, now: Nanos) -> i64 {
        let first = self.take_ids(request.specs.len());
        request.specs.iter_mut().for_each(|spec| spec.max_wait = wait.and_then(wire));
        request.grants = vec![None; request.specs.len()];
        request.wait_until = wait.filter(|&wait| wait > 0).map_or(NEVER, |wait| now + wait);
        request.request_id = if wait == Some(0) { String::new() } else { secret() };
        request.stranded = if self.links[self.present].opened { NEVER } else { now };
        self.ends_at = self.ends_at.min(self.given_up_at(&request));
        self.waiting.insert(first, request);
        self.reconnect_at = self.reconnect_at.min(now);
        self.send_held_back(first, now);
        if self.closed {
            self.refuse(first, Refusal::new("CLIENT_CLOSED", ""));
        }
        first
    }

    pub fn release(&mut self, id: i64, told: Option<Told<ReleaseOutcome>>, now: Nanos) {
        if self.notice(id, now) {
            self.end(id, GIVEN_BACK, "", false, told);
        }
    }

    pub fn downgrade(&mut self, id: i64, told: Told<Result<(), Refusal>>) {
        let ready = |lease: &&Lease| lease.to.is_none() && lease.move_key.is_empty();
        let Some(l) = self.held.get(&id).filter(ready).and_then(|lease| lease.link) else {
            let why = "the lock has ended, or is on its way to another broker: ask again";
            return self.tell(Some(told), Err(Refusal::new(UNREACHABLE, why)));
        };
        let holds = self.holds_of(id);
        self.held.iter_mut().filter(|(id, _)| holds.contains(id)).for_each(|(_, lease)| lease.downgrading += 1);
        let command = Command::Downgrade(DowngradeLease { acquire_id: id, ..Default::default() });
        self.ask(l, command, Box::new(move |table, answer, now| table.on_downgraded(holds, told, answer, now)));
    }

    pub fn close(&mut self, now: Nanos) {
        (self.closed, self.close_by) = (true, self.close_by.min(now + SECOND));
        for link in self.links.iter_mut().filter(|link| link.usable()) {
            match link.opened {
                true => link.leave(),
                false => *link = Link::default(), // holds nothing
            }
        }
        for first in ids(&self.waiting, |_| true) {
            self.refuse(first, Refusal::new("CLIENT_CLOSED", ""));
        }
        for id in ids(&self.held, |_| true) {
            if self.notice(id, now) {
                self.end(id, "CLIENT_CLOSED", "the client was closed", true, None);
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.closed && self.links.iter().all(|link| link.session == 0)
    }

    /// Ends the lease if its deadline has passed. True: it is still held.
    pub fn notice(&mut self, id: i64, now: Nanos) -> bool {
        let Some(lease) = self.held.get(&id) else { return false };
        if now < lease.deadline() || lease.seen.end.get().is_some() {
            return lease.seen.end.get().is_none(); // one that has ended is only on its way back
        }
        let link = &self.links[lease.link.unwrap_or(self.present)];
        let (cause, message) = match &lease.risk {
            _ if !link.opened || link.lapsed(now) => ("LAPSED", "the broker was not heard until the deadline".into()),
            Some(risk) => ("EXPIRED", format!("could not be renewed in time: {risk}")),
            // While the session lives and no renewal has failed, only max_hold lets the deadline of one lease pass.
            None if span(&lease.spec.max_hold) > 0 => ("MAX_HOLD", "held for max_hold".into()),
            None => ("LAPSED", "the broker's promise has passed".into()),
        };
        self.end(id, cause, &message, false, None);
        false
    }

    pub fn at_risk(&self, lease: &Lease, now: Nanos) -> bool {
        lease.risk.is_some() || lease.link.is_some_and(|l| self.links[l].overdue(lease.deadline(), now))
    }

    pub fn stats(&self, now: Nanos) -> Stats {
        let held = || self.held.values().filter(|lease| now < lease.deadline());
        let waiting = self.waiting.values().map(|request| request.specs.len()).sum();
        Stats { held: held().count(), waiting, at_risk: held().filter(|lease| self.at_risk(lease, now)).count() }
    }

    /// Nothing is held, waited for, or on its way back.
    pub fn is_drained(&self) -> bool {
        self.is_over() || self.held.is_empty() && self.waiting.is_empty() && self.backs.is_empty()
    }

    fn wants_stream(&self) -> bool {
        !self.closed && self.links[self.present].session == 0
    }

    pub fn wake(&self) -> Nanos {
        let links = self.links.iter().filter(|link| link.session > 0);
        let first = links.map(|link| link.deadline.min(link.beat_at)).min().unwrap_or(NEVER);
        let reconnect_at = if self.wants_stream() { self.reconnect_at } else { NEVER };
        first.min(self.ends_at).min(self.moves_at).min(self.close_by).min(reconnect_at)
    }

    pub fn tick(&mut self, now: Nanos) {
        for l in [0, 1] {
            if self.links[l].lapsed(now) {
                self.on_broken(l, "LAPSED", "the broker was not heard for too long", None, now);
            } else if self.links[l].usable() && now >= self.links[l].beat_at {
                (self.links[l].beat_due, self.links[l].beat_at) = (true, NEVER); // the next counts from its sending
            }
        }
        if now >= self.close_by {
            (self.links, self.close_by) = (Default::default(), NEVER);
        }
        if now >= self.ends_at {
            self.sweep(now);
        }
        if now >= self.moves_at {
            self.send_moves(now);
        }
        if self.wants_stream() && now >= self.reconnect_at {
            self.start(now);
        }
    }

    fn start(&mut self, now: Nanos) {
        // A broker that does not answer must not use up the promises of leases that wait for a session.
        let patience = if self.is_moving() { self.validity / 3 } else { 5 * SECOND };
        let address = self.addresses[self.broker].clone();
        let process = self.claim.clone().filter(|_| address.starts_with("unix:"));
        let open = OpenSession { client: self.label.clone(), generation: self.sessions as i32, process };
        self.sessions += 1;
        self.links[self.present] = Link::start(self.sessions, address, now, patience);
        let id = self.take_ids(1);
        self.links[self.present].add(id, Command::Open(open));
        self.held.values_mut().for_each(|lease| lease.stays = false);
        self.send_held_back(0, now);
    }

    /// Goes to the next address. False: each has been tried since the last success, so pause.
    pub fn next_broker(&mut self, now: Nanos) -> bool {
        let count = self.addresses.len();
        (self.broker, self.tried, self.reconnect_at) = ((self.broker + 1) % count, (self.tried + 1) % count, now);
        self.tried > 0
    }

    pub fn plan_reconnect(&mut self, failure: Option<&Refusal>, now: Nanos) {
        if self.next_broker(now) && failure.is_none_or(|failure| failure.is(&[UNREACHABLE, "DRAINING"])) {
            return;
        }
        let pauses = || ExponentialBackoff::from_millis(2).factor(10).max_delay(Duration::from_secs(2)); // 20 ms, 40 ms
        let pause = self.pauses.get_or_insert_with(pauses).next().map_or(0, |pause| nanos(jitter(pause)));
        let wanted = failure.map_or(0, |failure| span(&failure.wire.retry_after).min(2 * SECOND));
        self.reconnect_at = now + (pause + wanted).min(if self.is_moving() { 200 * MS } else { NEVER });
    }

    pub fn sweep(&mut self, now: Nanos) {
        self.ends_at = NEVER;
        for id in ids(&self.held, |_| true) {
            if self.notice(id, now) {
                self.ends_at = self.ends_at.min(self.held[&id].deadline());
            }
        }
        for first in ids(&self.waiting, |_| true) {
            match self.given_up_at(&self.waiting[&first]) {
                at if at <= now => self.time_out(first, now),
                at => self.ends_at = self.ends_at.min(at),
            }
        }
    }

    /// When a request has waited for too long: for its answer, or for a broker to be found.
    fn given_up_at(&self, request: &Request) -> Nanos {
        match self.unreachable_after {
            _ if request.stranded == NEVER => request.wait_until.saturating_add(500 * MS),
            Some(after) => request.wait_until.min(request.stranded + after),
            None if request.wait_until != NEVER => request.wait_until,
            None if request.request_id.is_empty() => request.stranded + SECOND,
            None => request.stranded + 10 * SECOND,
        }
    }

    fn time_out(&mut self, first: i64, now: Nanos) {
        let stranded = self.waiting[&first].stranded;
        if stranded == NEVER {
            return self.refuse(first, Refusal::new("WAIT_TIMEOUT", "the broker did not answer within the wait"));
        }
        let told = self.last_failure.clone().unwrap_or_else(|| Refusal::new(UNREACHABLE, "nothing was heard"));
        let telling = told.is(&["DRAINING", "QUOTA_EXCEEDED", "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED"]);
        let (at, waited, told, reason) =
            (self.addresses.join(","), (now - stranded) / MS, told.wire.message, told.reason);
        let message = format!("no broker at {at} took it within {waited} ms: {told}; check that distlockd runs there");
        self.refuse(first, Refusal::new(if telling { &reason } else { UNREACHABLE }, message));
    }

    /// Answers a request, and tells the broker that it is given up; what that has granted already is freed.
    pub fn refuse(&mut self, first: i64, refusal: Refusal) {
        let Some(request) = self.waiting.remove(&first) else { return };
        self.tell(request.answer, Err(refusal));
        let sent = request.link.filter(|&l| self.links[l].usable() && !self.links[l].take_back(first));
        let Some(l) = sent else { return };
        for (id, grant) in (first..).zip(request.grants) {
            match grant {
                Some(_) => self.give_up(l, id),
                None => self.links[l].cancel(id),
            }
        }
    }

    pub fn strand(&mut self, first: i64, now: Nanos) {
        if let Some(request) = self.waiting.get_mut(&first) {
            request.grants.fill(None);
            (request.link, request.stranded, self.ends_at) = (None, request.stranded.min(now), 0);
        }
    }

    /// Has a session free what nobody waits for there: a grant of that is never believed in.
    pub fn give_up(&mut self, l: usize, acquire_id: i64) {
        let id = self.take_ids(1);
        self.links[l].add(id, Command::Release(ReleaseLease { acquire_id, ..Default::default() }));
    }

    /// Asks the present session for the locks of all requests that no session has, from the one with this id on.
    pub fn send_held_back(&mut self, from: i64, now: Nanos) {
        let unsent = |(&first, request): (&i64, &Request)| request.link.is_none().then_some(first);
        for first in self.waiting.range(from..).filter_map(unsent).collect::<Vec<_>>() {
            if self.links[self.present].usable() {
                self.send(first, now);
            }
        }
    }

    fn send(&mut self, first: i64, now: Nanos) {
        let Some(request) = self.waiting.get_mut(&first) else { return };
        let asked = &request.specs[0];
        let same =
            |one: &LockSpec| (&one.key, &one.owner, &one.namespace) == (&asked.key, &asked.owner, &asked.namespace);
        let arrives = |lease: &Lease| lease.link != Some(self.present) && lease.spec.reentrant && same(&lease.spec);
        if asked.reentrant && self.held.values().any(arrives) {
            return; // the same owner holds the lock through another session: it would wait for itself here
        }
        if request.wait_until != NEVER {
            let left = (request.wait_until - now).max(MS); // 0 would be one try
            request.specs.iter_mut().for_each(|spec| spec.max_wait = wire(left));
        }
        let (locks, request_id) = (request.specs.clone(), request.request_id.clone());
        let command = SessionCommand { id: first, command: Some(Command::Acquire(AcquireLocks { locks, request_id })) };
        let (bytes, link) = (encoded_len(1, &command), &mut self.links[self.present]);
        if bytes <= link.max_bytes {
            request.link = Some(self.present);
            link.commands.push_back(command);
        } else if link.opened {
            let why = format!("the request has {bytes} bytes, and this broker takes {}: ask for less", link.max_bytes);
            self.refuse(first, Refusal::new("INVALID_ARGUMENT", why));
        } // else it goes when the broker has told its limit
    }

    /// The end is final. The sessions that may have the lease are to free it, and `told` hears the outcome. `gone`: its
    /// own session has it no more.
    pub fn end(&mut self, id: i64, cause: &'static str, why: &str, gone: bool, told: Option<Told<ReleaseOutcome>>) {
        let Some(mut lease) = self.held.remove(&id) else { return };
        let seen = lease.seen.clone();
        let _ = seen.end.set(Lost { key: seen.key.clone(), cause, message: why.into() });
        seen.deadline.store(0, Relaxed);
        self.effects.push(Box::new(move || seen.over.send_modify(|over| *over = true)));
        if lease.spec.reentrant {
            self.moves_at = 0; // an acquire of that owner may have waited for its arrival
        }
        lease.to.and_then(|(_, to)| self.asked.remove(&to));
        let ways: Vec<_> = lease.link.filter(|_| !gone).map(|l| (l, id)).into_iter().chain(lease.to).collect();
        if gone && ways.is_empty() {
            return;
        }
        let (no, lapsed) = (self.take_ids(1), lease.seen.end.get().is_some_and(|end| end.cause != GIVEN_BACK));
        (lease.told, lease.unanswered, lease.outcome) = (told, ways.len().max(1), ReleaseOutcome::AlreadyGone);
        self.backs.insert(no, lease);
        if ways.is_empty() {
            self.returned(no, Answer::Broken);
        }
        for (l, acquire_id) in ways {
            let release = ReleaseLease { acquire_id, lapsed, ..Default::default() };
            self.ask(l, Command::Release(release), Box::new(move |table, answer, _| table.returned(no, answer)));
        }
    }

    fn returned(&mut self, no: i64, answer: Answer) {
        use ReleaseOutcome::*;
        let Some(mut back) = self.backs.remove(&no) else { return };
        back.broken |= matches!(answer, Answer::Broken);
        let outcome = match answer {
            Answer::Done(outcome) => ReleaseOutcome::try_from(outcome).unwrap_or(Unspecified),
            Answer::Refused(refusal) if refusal.is(&["NOT_HOLDER"]) => AlreadyGone,
            _ => Unspecified,
        };
        let both = [back.outcome, outcome]; // of two sessions only one has had the lease
        let better = [Released, StillHeld, Unspecified].into_iter().find(|one| both.contains(one));
        back.outcome = better.unwrap_or(AlreadyGone);
        back.unanswered -= 1;
        if back.unanswered == 0 {
            self.tell(back.told.take(), back.outcome);
            return self.leave_over(back);
        }
        self.backs.insert(no, back);
    }

    pub fn on_event(&mut self, l: usize, event: SessionEvent, now: Nanos) {
        let id = event.id;
        self.links[l].on_event(id);
        match event.event {
            Some(Event::Opened(opened)) => self.on_opened(l, opened, now),
            Some(Event::Queued(queued)) => self.on_queued(l, id, queued),
            Some(Event::Granted(grant)) => self.on_granted(l, id, grant, now),
            Some(Event::Refused(refusal)) => self.on_refused(l, id, refusal.into(), now),
            Some(Event::HeartbeatAck(ack)) => self.on_ack(l, ack, now),
            Some(Event::Lost(lost)) => self.on_lost(l, id, lost, now),
            Some(Event::Renewed(_)) => _ = self.held_by(l, id).map(|lease| lease.risk = None),
            Some(Event::AtRisk(risk)) => _ = self.held_by(l, id).map(|lease| lease.risk = Some(risk.cause)),
            Some(Event::Downgraded(_) | Event::Authenticated(_)) => drop(self.answer(id, Answer::Done(0), now)),
            // Under the acquire's own id: another program that knows the lease_id has released the lease.
            Some(Event::Released(released)) if !self.answer(id, Answer::Done(released.outcome), now) => {
                self.on_gone(l, id, "RELEASED", "released by its lease_id");
            }
            Some(Event::Draining(draining)) => {
                self.links[l].drained_at = now + span(&draining.time_left);
                if self.addresses.len() == 1 || !self.links[l].adopts {
                    self.tell_draining(l, now);
                }
                self.drains(l, now);
            }
            _ => {} // unknown events have no content here
        }
    }

    /// Not all of this session's locks can follow to another broker. Told once.
    pub fn tell_draining(&mut self, l: usize, now: Nanos) {
        let at = std::mem::replace(&mut self.links[l].drained_at, NEVER);
        let (left, draining) = (Duration::from_nanos((at - now).max(0) as u64), self.draining.clone());
        if at != NEVER {
            self.effects.push(Box::new(move || draining.send_modify(|told| *told = Some(left))));
        }
    }

    pub fn show(&mut self, l: usize, authorization: String) {
        let link = &mut self.links[l];
        if link.authenticates && !authorization.is_empty() && authorization != link.shown {
            link.shown = authorization.clone();
            let refused = |answer: Answer| matches!(answer, Answer::Refused(_)); // it is shown again then
            let heard: Heard =
                Box::new(move |table, answer, _| _ = refused(answer).then(|| table.links[l].shown.clear()));
            self.ask(l, Command::Authenticate(Authenticate { authorization }), heard);
        }
    }

    fn held_by(&mut self, l: usize, id: i64) -> Option<&mut Lease> {
        self.held.get_mut(&id).filter(|lease| lease.link == Some(l))
    }

    fn on_opened(&mut self, l: usize, opened: SessionOpened, now: Nanos) {
        self.links[l].open(&opened, now);
        self.validity = self.links[l].validity;
        if l == self.present {
            self.send_moves(now);
        }
        for request in self.waiting.values_mut().filter(|request| request.link == Some(l) && !request.turned_away) {
            request.stranded = NEVER;
            self.ends_at = 0;
        }
    }

    /// The present broker has the request, and so its place. The former session matters no more.
    fn on_queued(&mut self, l: usize, id: i64, queued: AcquireQueued) {
        let Some((request, ..)) = self.request_of(id).filter(|found| found.0.link == Some(l)) else { return };
        (request.stranded, request.turned_away) = (NEVER, false);
        let (told, former) = (request.on_queued.take(), request.former.filter(|_| request.crossed.contains(&id)));
        if request.specs.len() == 1 {
            request.former = None; // else the place of the others is still there
        }
        self.tell(told, queued);
        former.into_iter().for_each(|former| self.give_up(former, id));
        self.ends_at = 0; // to be reckoned anew
    }

    fn on_granted(&mut self, l: usize, id: i64, grant: Grant, now: Nanos) {
        let deadline = self.links[l].deadline_of(grant.echo_seq, &grant.valid_for);
        if let Some((request, first, part)) = self.request_of(id) {
            if request.link == Some(l) {
                request.grants[part] = Some((grant, deadline));
                self.links[l].beat_before_half(deadline, now);
                return self.deliver(first, now);
            } else if request.former == Some(l) {
                return request.crossed.push(id); // given back there when the next broker has its place
            }
        }
        if self.held_by(l, id).is_none() && !self.answer(id, Answer::Granted(grant), now) && l != self.present {
            self.give_up(l, id);
        }
    }

    /// Hands a request's locks to the program, when all are granted and none is past its deadline.
    fn deliver(&mut self, first: i64, now: Nanos) {
        let Some(request) = self.waiting.remove(&first) else { return };
        if request.grants.iter().flatten().filter(|(_, deadline)| now < *deadline).count() < request.specs.len() {
            self.waiting.insert(first, request);
            return;
        }
        let (mut all, link) = (Vec::new(), request.link);
        let grants = request.grants.into_iter().flatten();
        for (id, (spec, (grant, deadline))) in (first..).zip(request.specs.into_iter().zip(grants)) {
            let (key, token, hold_count) = (spec.key.clone(), grant.fencing_token, grant.hold_count.max(1));
            let (id_now, deadline_now) = (id.into(), deadline.into());
            let seen = Seen { key, token, hold_count, id: id_now, deadline: deadline_now, ..Seen::default() };
            all.push(Arc::new(seen));
            self.ends_at = self.ends_at.min(deadline);
            let (seen, lease_id) = (all[all.len() - 1].clone(), grant.lease_id);
            self.held.insert(id, Lease { spec, seen, lease_id, link, ..Lease::default() });
        }
        self.tell(request.answer, Ok(all));
    }

    fn on_ack(&mut self, l: usize, ack: HeartbeatAck, now: Nanos) {
        let promised = self.links[l].deadline_of(ack.seq, &ack.valid_for);
        if !self.links[l].ack(ack.seq, promised, now) {
            return;
        }
        if l == self.present && ack.seq > 0 {
            (self.tried, self.pauses, self.last_failure) = (0, None, None); // it serves
        }
        let limit = |limit: &LeaseLimit| (limit.acquire_id, self.links[l].deadline_of(ack.seq, &limit.valid_for));
        let limits: HashMap<i64, Nanos> = ack.limits.iter().map(limit).collect();
        let mut nearest = NEVER;
        let mut extended = |id: i64, before: Nanos| {
            let deadline = limits.get(&id).copied().unwrap_or(before.max(promised));
            nearest = if now < deadline { nearest.min(deadline) } else { nearest }; // what is over needs no further ack
            deadline
        };
        self.sweep(now); // a deadline that has passed is final
        for (&id, lease) in self.held.iter().filter(|(_, lease)| lease.link == Some(l)) {
            lease.seen.deadline.store(extended(id, lease.deadline()), Relaxed);
        }
        for first in ids(&self.waiting, |request| request.link == Some(l)) {
            for (id, grant) in (first..).zip(self.waiting.get_mut(&first).into_iter().flat_map(|one| &mut one.grants)) {
                grant.iter_mut().for_each(|(_, deadline)| *deadline = extended(id, *deadline));
            }
            self.deliver(first, now);
        }
        self.sweep(now);
        if nearest != NEVER {
            self.links[l].beat_before_half(nearest, now); // a short ttl needs its next ack before the interval is over
        }
    }

    fn on_refused(&mut self, l: usize, id: i64, refusal: Refusal, now: Nanos) {
        let Some((request, first, _)) = self.request_of(id) else {
            self.answer(id, Answer::Refused(refusal), now);
            return;
        };
        if request.former == Some(l) {
            request.former = None;
        } else if request.link == Some(l) {
            request.link = None; // it has none of its locks there
            let only = self.addresses.len() == 1;
            if !refusal.is(&["DRAINING"]) || only && !ids(&self.held, |lease| lease.link == Some(l)).is_empty() {
                return self.refuse(first, refusal);
            }
            // The broker drains: the request asks another one, or the next one at the address.
            self.last_failure = Some(refusal);
            self.waiting.get_mut(&first).into_iter().for_each(|request| request.turned_away = true);
            self.strand(first, now);
            if only {
                self.leave(l);
            } else {
                self.drains(l, now);
                self.send_held_back(0, now);
            }
        }
    }

    fn on_gone(&mut self, l: usize, id: i64, cause: &'static str, why: &str) {
        if self.held_by(l, id).is_some() {
            // A broker that adopted it may keep the lock after max_hold for a former promise, until its client says
            // that belief has ended.
            self.end(id, cause, why, cause != "MAX_HOLD", None);
        } else if let Some((_, first, _)) = self.request_of(id).filter(|found| found.0.link == Some(l)) {
            self.refuse(first, Refusal::new("LEASE_LOST", format!("lost before use: {why}")));
        }
    }

    fn on_lost(&mut self, l: usize, id: i64, lost: LeaseLost, now: Nanos) {
        let moves = self.held_by(l, id).is_some_and(|lease| !lease.move_key.is_empty());
        match LostReason::try_from(lost.reason) {
            // By the move that is under way: no later ack of this session speaks for the lease.
            Ok(LostReason::Moved) if moves => self.held_by(l, id).into_iter().for_each(|lease| lease.link = None),
            Ok(LostReason::Drained) if self.survives(l, id, now) => self.orphan(id, &lost.message),
            reason => {
                let name = reason.map_or("UNKNOWN", |reason| reason.as_str_name());
                self.on_gone(l, id, name.trim_start_matches("LOST_REASON_"), &lost.message);
            }
        }
    }

    /// The stream of this link has ended, or must end. `failure`: its status; None: it was OK.
    pub fn on_broken(&mut self, l: usize, cause: &'static str, why: &str, failure: Option<Refusal>, now: Nanos) {
        for id in ids(&self.held, |lease| lease.link == Some(l)) {
            if self.survives(l, id, now) {
                self.orphan(id, why);
            } else if self.notice(id, now) {
                self.end(id, cause, why, true, None);
            }
        }
        self.last_failure = failure.clone().or(self.last_failure.take());
        for first in ids(&self.waiting, |_| true) {
            let Some((request, ..)) = self.request_of(first) else { continue };
            request.former = request.former.filter(|&former| former != l);
            if request.link.unwrap_or(self.present) == l {
                self.strand(first, now);
                let refusal = failure.clone().filter(Refusal::is_permanent);
                refusal.into_iter().for_each(|refusal| self.refuse(first, refusal));
            }
        }
        self.links[l] = Link::default();
        for id in ids(&self.asked, |(link, _)| *link == l) {
            self.answer(id, Answer::Broken, now);
        }
        if l == self.present {
            self.plan_reconnect(failure.as_ref(), now);
        }
        self.move_on(now);
    }
}
