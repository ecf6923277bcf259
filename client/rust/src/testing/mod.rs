// SPDX-License-Identifier: Apache-2.0
//! A broker inside of a test, without a daemon, a port or a thread. Clients, guards and errors are the real ones. Time
//! stands still until the test moves it.

mod locks;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use crate::client::{Client, Settings};
use crate::core::Core;
use crate::engine::Table;
use crate::error::{Refusal, UNREACHABLE};
use crate::link::{Nanos, nanos};
use crate::v1::{LostReason, RefusalReason, SessionCommand, session_command::Command};
use locks::{Locks, SessionId};

/// See the module. Clones are the same broker.
#[derive(Clone, Default)]
pub struct Broker(Arc<Inside>);

pub(crate) struct Inside {
    now: AtomicI64,
    calls: AtomicUsize, // of clients that have something to say, or to do; whoever comes first does it for all
    state: Mutex<State>,
}

impl Default for Inside {
    fn default() -> Inside {
        Inside { now: (1 << 50).into(), calls: 0.into(), state: Mutex::default() }
    }
}

#[derive(Default)]
struct State {
    cores: Vec<Weak<Core>>,
    sessions: Vec<SessionId>, // that are open, or about to be
    locks: Locks,
    is_stopped: bool,
    frozen: Option<Vec<(SessionId, SessionCommand)>>, // what has come meanwhile
    refusing: Option<RefusalReason>,
}

impl Broker {
    pub fn new() -> Broker {
        Broker::default()
    }

    pub fn client(&self) -> Client {
        self.client_with(Settings::default())
    }

    /// With a label, or another time after which a request finds no broker.
    pub fn client_with(&self, settings: Settings) -> Client {
        let table = Table::new(vec!["the test's broker".into()]);
        let client = Client::inside(table, settings, self.0.clone());
        self.0.state().cores.push(Arc::downgrade(client.core()));
        client
    }

    /// Moves time on. Clients have noticed all that this ends when it returns.
    pub fn advance(&self, time: Duration) {
        let until = self.0.now() + nanos(time);
        self.0.pump();
        while self.0.now() < until {
            let now = self.0.now();
            let state = self.0.state();
            let wakes = state.cores().into_iter().map(|(_, core)| core.step(|table, _| table.wake()));
            let next = wakes.chain([state.locks.next_end(now)]).min().unwrap_or(until).clamp(now + 1, until);
            drop(state);
            self.0.now.store(next, SeqCst);
            self.0.pump();
        }
    }

    /// Takes the lock from all who hold it.
    pub fn lose(&self, key: &str, reason: LostReason) {
        self.change(|state, now| state.locks.lose(key, reason, now));
    }

    /// No broker is there any more: streams break, and requests find nobody, until `start`.
    pub fn stop(&self) {
        self.change(|state, _| state.is_stopped = true);
    }

    /// After `stop`. Clients come back when they try again: advance by two seconds.
    pub fn start(&self) {
        self.change(|state, _| state.is_stopped = false);
    }

    /// The broker stands still, and clients hear nothing until `thaw`: their locks lapse after three seconds.
    pub fn freeze(&self) {
        self.change(|state, _| state.frozen = Some(Vec::new()));
    }

    /// After `freeze`: the broker goes on with what has come meanwhile.
    pub fn thaw(&self) {
        self.change(|state, now| {
            for (session, command) in state.frozen.take().unwrap_or_default() {
                state.obey(session, command, now);
            }
        });
    }

    /// Refuses all requests from now on; None: no more.
    pub fn refuse(&self, reason: Option<RefusalReason>) {
        self.change(|state, _| state.refusing = reason);
    }

    fn change(&self, change: impl FnOnce(&mut State, Nanos)) {
        self.0.pump();
        change(&mut self.0.state(), self.0.now());
        self.0.pump();
    }
}

impl Inside {
    pub fn now(&self) -> Nanos {
        self.now.load(SeqCst)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Brings all that clients say to the broker, and its answers to them, until nobody has anything to say.
    pub fn pump(&self) {
        if self.calls.fetch_add(1, SeqCst) > 0 {
            return; // the one that is here looks again
        }
        loop {
            let seen = self.calls.load(SeqCst);
            while self.state().turn(self.now()) {}
            if self.calls.compare_exchange(seen, 0, SeqCst, SeqCst).is_ok() {
                return;
            }
        }
    }
}

impl State {
    fn cores(&self) -> Vec<(usize, Arc<Core>)> {
        let there = |(i, core): (usize, &Weak<Core>)| Some((i, core.upgrade()?));
        self.cores.iter().enumerate().filter_map(there).collect()
    }

    /// False: there was nothing to do.
    fn turn(&mut self, now: Nanos) -> bool {
        let mut said = Vec::new();
        let mut open = Vec::new();
        for (i, core) in self.cores() {
            core.step(|table, now| {
                table.tick(now);
                for l in [0, 1] {
                    if self.is_stopped && table.links[l].session > 0 {
                        let failure = Refusal::new(UNREACHABLE, "the test has stopped the broker");
                        table.on_broken(l, "DISCONNECTED", "the broker was stopped", Some(failure), now);
                    }
                    let session = (i, l, table.links[l].session);
                    open.extend(Some(session).filter(|session| session.2 > 0));
                    while let Some(message) = table.links[l].pack(now) {
                        said.extend(message.commands.into_iter().map(|command| (session, command)));
                    }
                }
            });
        }
        let gone: Vec<_> = self.sessions.iter().filter(|session| !open.contains(session)).copied().collect();
        self.sessions = open;
        gone.into_iter().for_each(|session| self.locks.part(session, now));
        let has_said = !said.is_empty();
        for (session, command) in said {
            match &mut self.frozen {
                Some(come) => come.push((session, command)),
                None => self.obey(session, command, now),
            }
        }
        if self.frozen.is_none() {
            self.locks.expire(now);
            self.locks.serve(now);
        }
        has_said | self.tell()
    }

    /// Brings what the broker says to its clients.
    fn tell(&mut self) -> bool {
        let out = std::mem::take(&mut self.locks.out);
        let has_told = !out.is_empty();
        for (session, event) in out {
            self.with(session, |table, now| table.on_event(session.1, event, now));
        }
        has_told
    }

    fn with(&self, (i, l, session): SessionId, call: impl FnOnce(&mut Table, Nanos)) {
        let Some(core) = self.cores[i].upgrade() else { return };
        core.step(|table, now| {
            if table.links[l].session == session {
                call(table, now);
            }
        });
    }

    fn obey(&mut self, session: SessionId, SessionCommand { id, command }: SessionCommand, now: Nanos) {
        if !self.sessions.contains(&session) {
            return; // its stream has ended
        }
        match (command, self.refusing) {
            (Some(Command::Open(_)), _) => self.locks.open(session, now),
            (Some(Command::Heartbeat(beat)), _) => self.locks.beat(session, beat.seq, now),
            (Some(Command::Acquire(acquire)), Some(reason)) => self.locks.refuse_all(session, id, &acquire, reason),
            (Some(Command::Acquire(acquire)), None) => self.locks.acquire(session, id, acquire, now),
            (Some(Command::Cancel(cancel)), _) => self.locks.cancel(session, cancel.acquire_id, now),
            (Some(Command::Release(release)), _) => self.locks.release(session, id, release, now),
            (Some(Command::Downgrade(downgrade)), _) => self.locks.downgrade(session, id, downgrade.acquire_id),
            (Some(Command::Adopt(adopt)), _) => self.locks.adopt(session, id, &adopt),
            (Some(Command::Goodbye(_)), _) => {
                self.locks.leave(session, now);
                self.tell();
                self.with(session, |table, now| table.on_broken(session.1, "DISCONNECTED", "it has left", None, now));
            }
            _ => {}
        }
    }
}
