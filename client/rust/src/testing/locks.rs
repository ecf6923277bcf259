// SPDX-License-Identifier: Apache-2.0
//! The holders and waiters of the locks of a test's broker, and when those end. Without clock or IO: time is passed in,
//! and `out` has what sessions are told.

use std::collections::{BTreeMap, HashMap};

use crate::link::{NEVER, Nanos, SECOND, span, wire};
use crate::v1::{session_event::Event, *};

pub const VALIDITY: Nanos = 3 * SECOND;
const TTL: Nanos = 15 * SECOND;

/// Which client's, which link of it, and which session of that.
pub type SessionId = (usize, usize, u64);
type Name = (String, String);

/// A lock that is held, or waited for.
#[derive(Clone)]
struct Lease {
    id: i64,
    session: Option<SessionId>, // None: no session has it
    spec: LockSpec,
    lease_id: String,
    token: i64,
    hold_count: i32,
    granted_at: Nanos,
    ends_at: Nanos, // by max_hold, or when no session takes it over
}

struct Request {
    leases: Vec<Lease>,
    request_id: String,
    until: Nanos,
}

#[derive(Default)]
struct Lock {
    holders: Vec<Lease>,
    token: i64,
    blocked_until: Nanos,
}

#[derive(Default)]
pub struct Locks {
    locks: BTreeMap<Name, Lock>,
    waiting: Vec<Request>, // in the order of their arrival
    heard: HashMap<SessionId, (i64, Nanos)>,
    grants: u64,
    pub out: Vec<(SessionId, SessionEvent)>,
}

fn name_of(spec: &LockSpec) -> Name {
    let namespace = if spec.namespace.is_empty() { "default" } else { &spec.namespace };
    (namespace.into(), spec.key.clone())
}

impl Lease {
    fn end_of_hold(&self) -> Nanos {
        Some(span(&self.spec.max_hold)).filter(|&hold| hold > 0).map_or(NEVER, |hold| self.granted_at + hold)
    }

    fn is_hold_of(&self, other: &Lease) -> bool {
        self.lease_id == other.lease_id
    }

    fn holder(&self) -> Holder {
        let LockSpec { owner, metadata, permits, mode, .. } = self.spec.clone();
        let (holder_id, ttl) = (format!("holder of {}", self.token), wire(TTL));
        Holder { holder_id, owner, metadata, mode, permits, fencing_token: self.token, ttl, ..Holder::default() }
    }
}

impl Locks {
    fn say(&mut self, session: Option<SessionId>, id: i64, event: Event) {
        self.out.extend(session.map(|session| (session, SessionEvent { id, event: Some(event) })));
    }

    fn lock(&mut self, name: Name) -> &mut Lock {
        self.locks.entry(name).or_default()
    }

    fn held(&self) -> impl Iterator<Item = &Lease> {
        self.locks.values().flat_map(|lock| &lock.holders)
    }

    fn held_by(&self, session: SessionId) -> Vec<Lease> {
        self.held().filter(|lease| lease.session == Some(session)).cloned().collect()
    }

    /// The next moment at which something may end.
    pub fn next_end(&self, now: Nanos) -> Nanos {
        let blocks = self.locks.values().map(|lock| lock.blocked_until);
        let ends = self.held().map(|lease| lease.ends_at).chain(self.waiting.iter().map(|one| one.until));
        ends.chain(blocks).filter(|&at| at > now).min().unwrap_or(NEVER)
    }

    pub fn open(&mut self, session: SessionId, now: Nanos) {
        self.heard.insert(session, (0, now));
        let opened = SessionOpened {
            session_id: "test".into(),
            validity: wire(VALIDITY),
            heartbeat_interval: wire(SECOND),
            features: vec!["permit".into(), "adopt".into()],
            ..SessionOpened::default()
        };
        self.say(Some(session), 0, Event::Opened(opened));
    }

    pub fn beat(&mut self, session: SessionId, seq: i64, now: Nanos) {
        self.heard.insert(session, (seq, now));
        let ends = self.held_by(session).into_iter().filter(|lease| lease.ends_at < now + VALIDITY);
        let limits = ends.map(|lease| LeaseLimit { acquire_id: lease.id, valid_for: wire(lease.ends_at - now) });
        let limits = limits.collect();
        self.say(Some(session), 0, Event::HeartbeatAck(HeartbeatAck { seq, valid_for: wire(VALIDITY), limits }));
    }

    /// Queues a request, in the place that it had before when it comes again.
    pub fn acquire(&mut self, session: SessionId, id: i64, acquire: AcquireLocks, now: Nanos) {
        let wait = acquire.locks[0].max_wait.as_ref().map(|wait| span(&Some(*wait)));
        let lease = |(id, spec)| Lease {
            id,
            session: Some(session),
            spec,
            lease_id: String::new(),
            token: 0,
            hold_count: 1,
            granted_at: 0,
            ends_at: NEVER,
        };
        let (waits, until) = (wait != Some(0), wait.map_or(NEVER, |wait| now + wait));
        let leases = (id..).zip(acquire.locks).map(lease).collect();
        let request = Request { leases, request_id: acquire.request_id, until };
        let known = |one: &Request| !one.request_id.is_empty() && one.request_id == request.request_id;
        let place = self.waiting.iter().position(known).unwrap_or(self.waiting.len());
        self.waiting.retain(|one| !known(one));
        self.waiting.insert(place, request);
        self.serve(now);
        let is_it = |one: &Request| one.leases[0].session == Some(session) && one.leases[0].id == id;
        let Some(place) = self.waiting.iter().position(is_it) else { return };
        if waits {
            let queued = AcquireQueued { position: place as i32, ..AcquireQueued::default() };
            self.say(Some(session), id, Event::Queued(queued));
        } else {
            let request = self.waiting.remove(place);
            self.refuse(request, RefusalReason::LockHeld, now);
        }
    }

    pub fn refuse_all(&mut self, session: SessionId, id: i64, acquire: &AcquireLocks, reason: RefusalReason) {
        for id in (id..).take(acquire.locks.len()) {
            let refusal = Refusal { reason: reason.into(), message: "as the test says".into(), ..Refusal::default() };
            self.say(Some(session), id, Event::Refused(refusal));
        }
    }

    pub fn cancel(&mut self, session: SessionId, id: i64, now: Nanos) {
        let has = |one: &Request| one.leases.iter().any(|one| one.session == Some(session) && one.id == id);
        if let Some(place) = self.waiting.iter().position(has) {
            let request = self.waiting.remove(place);
            self.refuse(request, RefusalReason::Cancelled, now);
        }
        for lease in self.held_by(session).into_iter().filter(|lease| lease.id == id) {
            self.end(&lease, None, false, now);
        }
    }

    pub fn release(&mut self, session: SessionId, id: i64, release: ReleaseLease, now: Nanos) {
        let found = self.held_by(session).into_iter().find(|lease| lease.id == release.acquire_id);
        let outcome = found.map_or(ReleaseOutcome::AlreadyGone, |lease| {
            self.end(&lease, None, release.lapsed, now);
            let left = self.held().any(|one| one.is_hold_of(&lease));
            if left { ReleaseOutcome::StillHeld } else { ReleaseOutcome::Released }
        });
        let released = LeaseReleased { outcome: outcome.into(), ..LeaseReleased::default() };
        self.say(Some(session), id, Event::Released(released));
    }

    pub fn downgrade(&mut self, session: SessionId, id: i64, acquire_id: i64) {
        let Some(lease) = self.held_by(session).into_iter().find(|lease| lease.id == acquire_id) else {
            return self.not_holder(session, id);
        };
        let holders = &mut self.lock(name_of(&lease.spec)).holders;
        holders.iter_mut().filter(|one| one.is_hold_of(&lease)).for_each(|one| one.spec.set_mode(LockMode::Shared));
        self.say(Some(session), id, Event::Downgraded(LeaseDowngraded::default()));
    }

    fn not_holder(&mut self, session: SessionId, id: i64) {
        let refusal = Refusal { reason: RefusalReason::NotHolder.into(), ..Refusal::default() };
        self.say(Some(session), id, Event::Refused(refusal));
    }

    pub fn adopt(&mut self, session: SessionId, first: i64, adopt: &AdoptLease) {
        let (mut adopted, lease_id) = (Vec::new(), self.new_id());
        let holds = self.locks.values_mut().flat_map(|lock| &mut lock.holders);
        for (id, lease) in (first..).zip(holds.filter(|lease| lease.lease_id == adopt.lease_id)) {
            (lease.id, lease.session, lease.lease_id) = (id, Some(session), lease_id.clone());
            lease.ends_at = lease.end_of_hold();
            adopted.push(lease.clone());
        }
        if adopted.is_empty() {
            self.not_holder(session, first);
        }
        adopted.iter().for_each(|lease| self.tell_grant(lease));
    }

    /// The session has said goodbye: all that it has is free.
    pub fn leave(&mut self, session: SessionId, now: Nanos) {
        for lease in self.held_by(session) {
            self.end(&lease, None, false, now);
        }
        self.waiting.retain(|one| one.leases[0].session != Some(session));
        self.heard.remove(&session);
    }

    /// The session is gone without a goodbye: what it has ends in time, unless another session takes it over.
    pub fn part(&mut self, session: SessionId, now: Nanos) {
        let Some((_, heard_at)) = self.heard.remove(&session) else { return };
        for lease in self.locks.values_mut().flat_map(|lock| &mut lock.holders) {
            if lease.session.take_if(|of| *of == session).is_some() {
                let end = match lease.spec.on_disconnect() {
                    OnDisconnect::Release => now,
                    OnDisconnect::Expire => now + TTL,
                    _ => heard_at + VALIDITY,
                };
                lease.ends_at = lease.ends_at.min(end);
            }
        }
        for request in self.waiting.iter_mut().filter(|one| one.leases[0].session == Some(session)) {
            request.until = request.until.min(now + VALIDITY); // its place, until it comes again
            request.leases.iter_mut().for_each(|lease| lease.session = None);
        }
    }

    /// Takes the lock from all who hold it.
    pub fn lose(&mut self, key: &str, reason: LostReason, now: Nanos) {
        let held: Vec<_> = self.held().filter(|lease| lease.spec.key == key).cloned().collect();
        held.iter().for_each(|lease| self.end(lease, Some(reason), false, now));
    }

    pub fn expire(&mut self, now: Nanos) {
        while let Some(place) = self.waiting.iter().position(|one| now >= one.until) {
            let request = self.waiting.remove(place);
            self.refuse(request, RefusalReason::WaitTimeout, now);
        }
        let over: Vec<_> = self.held().filter(|lease| now >= lease.ends_at).cloned().collect();
        over.iter().for_each(|lease| self.end(lease, Some(LostReason::MaxHold), false, now));
    }

    /// Grants what can be granted, in the order of arrival.
    pub fn serve(&mut self, now: Nanos) {
        let mut place = 0;
        while place < self.waiting.len() {
            let request = &self.waiting[place];
            let is_there = request.leases[0].session.is_some();
            if !is_there || !request.leases.iter().all(|lease| self.is_free(lease, place, now)) {
                place += 1;
                continue;
            }
            for lease in self.waiting.remove(place).leases {
                self.grant(lease, now);
            }
        }
    }

    /// The hold that this is a re-entry of.
    fn again(&self, lease: &Lease) -> Option<&Lease> {
        let is = |one: &&Lease| {
            let both = one.spec.reentrant && lease.spec.reentrant;
            both && one.session == lease.session && one.spec.owner == lease.spec.owner
        };
        self.locks.get(&name_of(&lease.spec))?.holders.iter().find(is)
    }

    fn is_free(&self, lease: &Lease, place: usize, now: Nanos) -> bool {
        let name = name_of(&lease.spec);
        if self.again(lease).is_some() {
            return true;
        }
        if self.waiting[..place].iter().any(|one| one.leases.iter().any(|one| name_of(&one.spec) == name)) {
            return false;
        }
        let Some(lock) = self.locks.get(&name) else { return true };
        let same = lock.holders.iter().all(|one| one.spec.mode() == lease.spec.mode());
        let taken: i32 = lock.holders.iter().map(|one| one.spec.permits.max(1)).sum();
        now >= lock.blocked_until
            && match lease.spec.mode() {
                LockMode::Permit => same && taken + lease.spec.permits.max(1) <= lease.spec.limit,
                LockMode::Shared => same,
                _ => lock.holders.is_empty(),
            }
    }

    fn new_id(&mut self) -> String {
        self.grants += 1;
        format!("lease {}", self.grants)
    }

    fn grant(&mut self, mut lease: Lease, now: Nanos) {
        lease.granted_at = now;
        if let Some(again) = self.again(&lease).cloned() {
            let holds = self.held().filter(|one| one.is_hold_of(&again)).count();
            (lease.token, lease.ends_at, lease.hold_count) = (again.token, again.ends_at, holds as i32 + 1);
            lease.lease_id = again.lease_id;
        } else {
            let lease_id = self.new_id();
            let lock = self.lock(name_of(&lease.spec));
            lock.token += 1;
            (lease.token, lease.ends_at, lease.lease_id) = (lock.token, lease.end_of_hold(), lease_id);
        }
        self.lock(name_of(&lease.spec)).holders.push(lease.clone());
        self.tell_grant(&lease);
    }

    fn tell_grant(&mut self, lease: &Lease) {
        let Some(&(heard, heard_at)) = lease.session.and_then(|session| self.heard.get(&session)) else { return };
        let (namespace, key) = name_of(&lease.spec);
        let grant = Grant {
            namespace,
            key,
            lease_id: lease.lease_id.clone(),
            fencing_token: lease.token,
            hold_count: lease.hold_count,
            mode: lease.spec.mode,
            valid_for: wire(VALIDITY.min(lease.ends_at - heard_at)),
            echo_seq: heard,
            ..Grant::default()
        };
        self.say(lease.session, lease.id, Event::Granted(grant));
    }

    /// `why`: it is lost; None: it was given back.
    fn end(&mut self, lease: &Lease, why: Option<LostReason>, lapsed: bool, now: Nanos) {
        let lock = self.lock(name_of(&lease.spec));
        let Some(at) = lock.holders.iter().position(|one| one.is_hold_of(lease) && one.id == lease.id) else { return };
        lock.holders.remove(at);
        if !lock.holders.iter().any(|one| one.is_hold_of(lease)) {
            let after_release = lease.granted_at + span(&lease.spec.min_hold);
            let normal = why.is_none() && !lapsed;
            lock.blocked_until = if normal { after_release } else { now + span(&lease.spec.lock_delay) };
        }
        if let Some(reason) = why {
            let lost = LeaseLost { reason: reason.into(), message: "as the test says".into(), ..LeaseLost::default() };
            self.say(lease.session, lease.id, Event::Lost(lost));
        }
    }

    fn refuse(&mut self, request: Request, reason: RefusalReason, now: Nanos) {
        let lock = |lease: &Lease| self.locks.get(&name_of(&lease.spec));
        let locks: Vec<_> = request.leases.iter().filter_map(lock).collect();
        let mut holders: Vec<_> = locks.iter().flat_map(|lock| &lock.holders).map(Lease::holder).collect();
        holders.dedup_by(|a, b| a.holder_id == b.holder_id);
        let left = locks.iter().map(|lock| lock.blocked_until - now).max().filter(|&left| left > 0);
        let block = left.map(|left| LockBlock { time_left: wire(left), ..LockBlock::default() });
        let message = format!("{:?} is not free", name_of(&request.leases[0].spec).1);
        let refusal = Refusal { reason: reason.into(), message, holders, block, ..Refusal::default() };
        for lease in request.leases {
            self.say(lease.session, lease.id, Event::Refused(refusal.clone()));
        }
    }
}
