// SPDX-License-Identifier: Apache-2.0
//! Leases that move to another session: "Moving a lease" in session.md.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::{Answer, GIVEN_BACK, Lease, Table, Told, ids, secret};
use crate::error::{Refusal, UNREACHABLE};
use crate::link::{MS, NEVER, Nanos, span};
use crate::v1::{session_command::Command, *};

impl Table {
    pub fn is_moving(&self) -> bool {
        self.held.values().any(|lease| lease.link != Some(self.present))
    }

    pub fn drains(&mut self, l: usize, now: Nanos) {
        self.links[l].draining = true;
        self.move_on(now);
    }

    /// Leaves the present broker, if it drains: the other link becomes the present one. While that still has a stream
    /// of its own, of a broker that drains as well, this waits for its end.
    pub fn move_on(&mut self, now: Nanos) {
        let (old, other) = (self.present, 1 - self.present);
        let drains = self.links[old].session > 0 && self.links[old].draining;
        if self.addresses.len() == 1 || self.closed || !drains || self.links[other].session > 0 {
            return;
        }
        self.present = other;
        self.next_broker(now);
        for first in ids(&self.waiting, |request| request.link == Some(old)) {
            let (sent, one_try) = (!self.links[old].take_back(first), self.waiting[&first].request_id.is_empty());
            if sent && one_try {
                self.links[old].cancel(first);
            } else if let Some(request) = self.waiting.get_mut(&first).filter(|_| sent) {
                let granted = |(id, grant): (i64, &Option<_>)| grant.as_ref().map(|_| id);
                request.crossed = (first..).zip(&request.grants).filter_map(granted).collect();
                request.former = Some(old); // whose place the next broker takes over
            }
            self.strand(first, now);
        }
    }

    /// Asks the present session to adopt all that it does not hold, and to free what nobody could free.
    pub fn send_moves(&mut self, now: Nanos) {
        self.moves_at = NEVER;
        let l = self.present;
        let link = &self.links[l];
        let (adopts, ready) = (link.adopts, link.opened && !link.leaving && !link.draining);
        let mut groups: BTreeMap<i64, Vec<i64>> = BTreeMap::new(); // the holds of each reentrant lease
        for id in ids(&self.held, |lease| ready && lease.link != Some(l) && lease.to.is_none() && !lease.stays) {
            let own = self.held[&id].link.map(|own| &self.links[own]);
            if !adopts {
                self.stay(id, now);
            } else if own.is_none_or(|own| own.adopts && !own.leaving) {
                groups.entry(self.holds_of(id)[0]).or_default().push(id);
            }
        }
        groups.into_values().for_each(|holds| self.adopt(l, holds));
        self.send_held_back(0, now);
    }

    /// The holds of a reentrant lease that are still held; of another one, itself.
    pub fn holds_of(&self, id: i64) -> Vec<i64> {
        match self.held.get(&id) {
            Some(lease) if lease.spec.reentrant => ids(&self.held, |one| one.is_hold_of(lease)),
            _ => vec![id],
        }
    }

    fn adopt(&mut self, l: usize, holds: Vec<i64>) {
        if holds.iter().any(|hold| self.held[hold].downgrading > 0) {
            return; // the adoption must name the mode, which is known when the downgrade is answered
        }
        let key = holds.iter().map(|hold| self.held[hold].move_key.clone()).find(|key| !key.is_empty());
        let (key, first) = (key.unwrap_or_else(secret), self.take_ids(holds.len()));
        for (&hold, to) in holds.iter().zip(first..) {
            let lease = self.held.get_mut(&hold).expect("it is held");
            (lease.to, lease.move_key) = (Some((l, to)), key.clone());
            let heard = move |table: &mut Table, answer, now| match answer {
                Answer::Granted(grant) => table.on_adopted(l, hold, to, grant, now),
                Answer::Refused(refusal) => table.on_not_adopted(l, hold, refusal, now),
                _ => table.held.get_mut(&hold).into_iter().for_each(|lease| lease.to = None), // to be asked again
            };
            self.asked.insert(to, (l, Box::new(heard)));
        }
        let (lease, hold_count) = (&self.held[&holds[0]], holds.len() as i32);
        let (lease_id, lock) = (lease.lease_id.clone(), Some(LockSpec { max_wait: None, ..lease.spec.clone() }));
        let adopt = AdoptLease { lease_id, lock, request_id: key, hold_count };
        self.links[l].add(first, Command::Adopt(adopt));
    }

    /// From now on only this session's promises count, also when they are shorter.
    fn on_adopted(&mut self, l: usize, id: i64, to: i64, grant: Grant, now: Nanos) {
        if !self.notice(id, now) {
            return self.end(id, GIVEN_BACK, "", true, None); // of a lease on its way back; of others that has done so
        }
        let mut lease = self.held.remove(&id).expect("it is held");
        lease.seen.id.store(to, Relaxed);
        (lease.link, lease.to, lease.risk, lease.lease_id) = (Some(l), None, None, grant.lease_id);
        lease.move_key.clear();
        let (same, reentrant) = (lease.seen.token == grant.fencing_token, lease.spec.reentrant);
        let deadline = self.links[l].deadline_of(grant.echo_seq, &grant.valid_for);
        lease.seen.deadline.store(deadline, Relaxed);
        self.held.insert(to, lease);
        if !same {
            return self.end(to, "TAKEN", "it was adopted under another fencing token", false, None);
        }
        if self.notice(to, now) {
            self.ends_at = self.ends_at.min(deadline);
            self.links[l].beat_before_half(deadline, now);
        }
        if reentrant || l != self.present {
            self.moves_at = self.moves_at.min(now); // an acquire waited for its arrival; or that broker drains already
        }
    }

    fn on_not_adopted(&mut self, l: usize, id: i64, refusal: Refusal, now: Nanos) {
        let key = self.held[&id].move_key.clone();
        for hold in self.holds_of(id) {
            let lease = self.held.get_mut(&hold).expect("it is held");
            let Some((_, to)) = lease.to.take_if(|_| lease.move_key == key) else { continue };
            self.asked.remove(&to); // the refusal is that of all holds
            if refusal.is(&["NOT_SUPPORTED"]) && std::mem::take(&mut lease.mode_unsure) {
                let shared = lease.spec.mode() == LockMode::Shared;
                lease.spec.set_mode(if shared { LockMode::Exclusive } else { LockMode::Shared });
                self.moves_at = self.moves_at.min(now);
            } else if refusal.is(&["NOT_HOLDER"]) {
                self.end(hold, "TAKEN", &refusal.wire.message, true, None);
            } else if refusal.is_permanent() {
                self.stay(hold, now);
            } else {
                self.moves_at = self.moves_at.min(now + span(&refusal.wire.retry_after).clamp(100 * MS, 500 * MS));
            }
        }
        if refusal.is(&["DRAINING"]) {
            self.drains(l, now);
        }
    }

    /// No broker can adopt it. It stays where it is, and is lost when that broker goes.
    fn stay(&mut self, id: i64, now: Nanos) {
        let Some(lease) = self.held.get_mut(&id).filter(|lease| lease.seen.end.get().is_none()) else {
            self.held.remove(&id); // it was on its way back: its ttl frees it
            return;
        };
        lease.stays = true;
        lease.move_key.clear();
        lease.link.into_iter().for_each(|own| self.tell_draining(own, now));
    }

    /// Whether a lease may be believed in after the end of its stream, until its last promise ends. The broker keeps the
    /// lock for as long, unless it was told to free it at once.
    pub fn survives(&self, l: usize, id: i64, now: Nanos) -> bool {
        let Some(lease) = self.held.get(&id).filter(|lease| lease.link == Some(l)) else { return false };
        let moves = lease.spec.resume || !lease.move_key.is_empty() || l != self.present;
        let freed = lease.spec.on_disconnect() == OnDisconnect::Release;
        moves && !freed && !self.closed && !lease.stays && self.links[l].adopts && now < lease.deadline()
    }

    pub fn orphan(&mut self, id: i64, why: &str) {
        let lease = self.held.get_mut(&id).expect("it is held");
        (lease.link, lease.risk, self.moves_at) = (None, Some(why.into()), 0);
    }

    /// No session could free it: the next one adopts it first, because an adoption may have changed the lease_id.
    pub fn leave_over(&mut self, mut lease: Lease) {
        let unknown = lease.broken && lease.outcome == ReleaseOutcome::Unspecified;
        if unknown && !self.closed && !self.held.values().any(|hold| hold.is_hold_of(&lease)) {
            (lease.broken, lease.link, lease.to, self.moves_at) = (false, None, None, 0);
            let id = self.take_ids(1);
            self.held.insert(id, lease);
        } // else other holds move it, with what is left of it
    }

    pub fn on_downgraded(&mut self, holds: Vec<i64>, told: Told<Result<(), Refusal>>, answer: Answer, now: Nanos) {
        let done = matches!(answer, Answer::Done(_));
        for (_, lease) in self.held.iter_mut().filter(|(id, _)| holds.contains(id)) {
            lease.downgrading -= 1;
            lease.mode_unsure |= !done;
            lease.spec.set_mode(if done { LockMode::Shared } else { lease.spec.mode() });
        }
        let refusal = match answer {
            Answer::Done(_) => Ok(()),
            Answer::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::new(UNREACHABLE, "the stream ended before the answer")),
        };
        self.tell(Some(told), refusal);
        self.moves_at = self.moves_at.min(now);
    }

    /// Says goodbye. Waiting requests go to the next stream.
    pub fn leave(&mut self, l: usize) {
        self.links[l].leave();
        self.waiting.values_mut().filter(|one| one.link == Some(l)).for_each(|one| one.link = None);
    }

    pub fn leave_when_empty(&mut self) {
        let l = 1 - self.present;
        let held = || self.held.values().any(|lease| lease.link == Some(l));
        let waits = || self.waiting.values().any(|request| request.former == Some(l));
        let asked = || self.asked.values().any(|(link, _)| *link == l);
        if self.links[l].usable() && !held() && !waits() && !asked() {
            self.leave(l);
        }
    }
}
