// SPDX-License-Identifier: Apache-2.0
//! The engine by itself: time is what the test says, and the broker is what the test feeds.

use std::sync::{Arc, Mutex};

use crate::channel::Access;
use crate::client::{Settings, Tls};
use crate::engine::{Granted, Request, Seen, Table};
use crate::error::Refusal;
use crate::link::{MS, NEVER, Nanos, SECOND, wire};
use crate::v1::{session_command::Command, session_event::Event, *};

struct Stage {
    table: Table,
    now: Nanos,
    sent: Vec<(usize, SessionCommand)>,
    answers: Arc<Mutex<Vec<Granted>>>,
}

impl Stage {
    fn new(brokers: usize) -> Stage {
        let addresses = (0..brokers).map(|i| format!("unix:{i}")).collect();
        let table = Table::new(addresses);
        Stage { table, now: 100 * SECOND, sent: vec![], answers: Arc::default() }
    }

    /// Lets time pass to the next moment, has the table do what is due, and takes what it sends.
    fn turn(&mut self, pause: Nanos) {
        self.now += pause;
        self.table.tick(self.now);
        self.table.leave_when_empty();
        for l in [0, 1] {
            while let Some(message) = self.table.links[l].pack(self.now) {
                self.sent.extend(message.commands.into_iter().map(|command| (l, command)));
            }
        }
        std::mem::take(&mut self.table.effects).into_iter().for_each(|effect| effect());
    }

    fn acquire(&mut self, spec: LockSpec, wait: Option<Nanos>) -> i64 {
        let answers = self.answers.clone();
        let answer = Box::new(move |granted| answers.lock().unwrap().push(granted));
        let request = Request { specs: vec![spec], answer: Some(answer), ..Request::default() };
        let id = self.table.acquire(request, wait, self.now);
        self.turn(0);
        id
    }

    fn event(&mut self, l: usize, id: i64, event: Event) {
        self.table.on_event(l, SessionEvent { id, event: Some(event) }, self.now);
        self.turn(0);
    }

    fn open(&mut self, l: usize) {
        let features = vec!["adopt".into()];
        let (validity, heartbeat_interval) = (wire(3 * SECOND), wire(SECOND));
        let opened = SessionOpened { validity, heartbeat_interval, features, ..SessionOpened::default() };
        self.event(l, 0, Event::Opened(opened));
    }

    fn grant(&mut self, l: usize, id: i64, token: i64, valid_for: Nanos, echo_seq: i64) {
        let (lease_id, valid_for) = (format!("secret {token}"), wire(valid_for));
        let grant = Grant { lease_id, fencing_token: token, valid_for, echo_seq, ..Grant::default() };
        self.event(l, id, Event::Granted(grant));
    }

    fn break_off(&mut self, l: usize, failure: Option<Refusal>) {
        self.table.on_broken(l, "DISCONNECTED", "it broke", failure, self.now);
        self.turn(0);
    }

    fn held(&mut self, spec: LockSpec) -> Arc<Seen> {
        let id = self.acquire(spec, None);
        self.open(self.table.present);
        self.grant(self.table.present, id, 7, 3 * SECOND, 0);
        self.answers.lock().unwrap().pop().unwrap().unwrap().remove(0)
    }

    /// The last command of a kind that was sent, with its link and id.
    fn last<T>(&self, kind: impl Fn(&Command) -> Option<T>) -> Option<(usize, i64, T)> {
        let found = |(l, sent): &(usize, SessionCommand)| Some((*l, sent.id, kind(sent.command.as_ref()?)?));
        self.sent.iter().rev().find_map(found)
    }

    fn refusal(&self) -> String {
        self.answers.lock().unwrap().pop().unwrap().err().unwrap().reason
    }
}

fn cause(seen: &Seen) -> Option<&'static str> {
    seen.end.get().map(|end| end.cause)
}

fn adoption(command: &Command) -> Option<AdoptLease> {
    if let Command::Adopt(adopt) = command { Some(adopt.clone()) } else { None }
}

fn release(command: &Command) -> Option<ReleaseLease> {
    if let Command::Release(release) = command { Some(release.clone()) } else { None }
}

fn resume(key: &str) -> LockSpec {
    LockSpec { resume: true, ..LockSpec::from(key) }
}

#[test]
fn a_lease_whose_deadline_has_passed_ends_so_before_its_stream_is_handled() {
    let mut stage = Stage::new(1);
    let seen = stage.held("k".into());
    stage.now += 3 * SECOND;
    stage.break_off(0, None);
    assert_eq!(cause(&seen), Some("LAPSED"));
}

#[test]
fn a_broken_stream_ends_a_lease_at_once() {
    let mut stage = Stage::new(1);
    let seen = stage.held("k".into());
    stage.break_off(0, None);
    assert_eq!(cause(&seen), Some("DISCONNECTED"));
}

#[test]
fn an_ack_extends_and_no_ack_revives() {
    let mut stage = Stage::new(1);
    let seen = stage.held("k".into());
    stage.turn(SECOND);
    let beat = stage.now;
    let ack = HeartbeatAck { seq: 1, valid_for: wire(3 * SECOND), limits: vec![] };
    stage.event(0, 0, Event::HeartbeatAck(ack.clone()));
    assert_eq!(seen.deadline.load(std::sync::atomic::Ordering::Relaxed), beat + 3 * SECOND);
    stage.now = beat + 3 * SECOND;
    stage.event(0, 0, Event::HeartbeatAck(HeartbeatAck { seq: 2, ..ack }));
    assert_eq!(cause(&seen), Some("LAPSED"));
}

#[test]
fn what_could_not_be_given_back_is_adopted_and_released_by_the_next_session() {
    let mut stage = Stage::new(1);
    let seen = stage.held(resume("k"));
    stage.break_off(0, None);
    assert_eq!(cause(&seen), None);
    let id = seen.id.load(std::sync::atomic::Ordering::Relaxed);
    stage.table.release(id, None, stage.now);
    stage.turn(3 * SECOND);
    stage.open(0);
    let (_, adopted, adopt) = stage.last(adoption).expect("it is adopted");
    assert_eq!(adopt.lease_id, "secret 7");
    stage.grant(0, adopted, 7, 3 * SECOND, 0);
    let (_, id, back) = stage.last(release).expect("and released");
    assert!(back.acquire_id == adopted && !back.lapsed);
    stage.event(0, id, Event::Released(LeaseReleased { outcome: 1, ..Default::default() }));
    assert!(stage.table.held.is_empty() && !stage.table.is_moving());
}

#[test]
fn while_leases_wait_a_connect_gets_a_third_of_the_validity() {
    let mut stage = Stage::new(1);
    stage.held(resume("k"));
    stage.break_off(0, None);
    stage.turn(200 * MS);
    assert!(stage.table.links[0].session > 0, "it connects again within 200 ms");
    assert_eq!(stage.table.links[0].deadline, stage.now + SECOND);
}

#[test]
fn an_adoption_under_another_token_is_taken() {
    let mut stage = Stage::new(1);
    let seen = stage.held(resume("k"));
    stage.break_off(0, None);
    stage.turn(SECOND);
    stage.open(0);
    let (_, adopted, _) = stage.last(adoption).expect("it is adopted");
    stage.grant(0, adopted, 8, 3 * SECOND, 0);
    assert_eq!(cause(&seen), Some("TAKEN"));
    assert_eq!(stage.last(release).expect("it is released").2.acquire_id, adopted);
}

#[test]
fn of_two_outcomes_the_better_one_counts() {
    for (former, next, wanted) in [(1, 3, 1), (3, 2, 2), (3, 3, 3), (0, 3, 0), (0, 1, 1), (2, 0, 2)] {
        let mut stage = Stage::new(2);
        let seen = stage.held("k".into());
        let old = stage.table.present;
        stage.event(old, 0, Event::Draining(BrokerDraining::default()));
        stage.open(1 - old);
        assert!(stage.last(adoption).is_some());
        let told = Arc::new(Mutex::new(None));
        let hears = told.clone();
        let id = seen.id.load(std::sync::atomic::Ordering::Relaxed);
        let hears = Box::new(move |outcome: ReleaseOutcome| *hears.lock().unwrap() = Some(outcome as i32));
        stage.table.release(id, Some(hears), stage.now);
        stage.turn(0);
        let releases: Vec<_> =
            stage.sent.iter().filter(|sent| release(sent.1.command.as_ref().unwrap()).is_some()).collect();
        let ids: Vec<_> = releases.iter().map(|sent| (sent.0, sent.1.id)).collect();
        assert_eq!(ids.len(), 2, "one in each session");
        for (l, id) in ids {
            let outcome = if l == old { former } else { next };
            stage.event(l, id, Event::Released(LeaseReleased { outcome, ..Default::default() }));
        }
        assert_eq!(*told.lock().unwrap(), Some(wanted));
    }
}

#[test]
fn what_finds_no_broker_is_refused_for_the_reason_that_was_told() {
    for (told, wanted) in [("QUOTA_EXCEEDED", "QUOTA_EXCEEDED"), ("INTERNAL", "UNREACHABLE")] {
        let mut stage = Stage::new(1);
        stage.acquire("k".into(), Some(0));
        stage.break_off(0, Some(Refusal::new(told, "no")));
        stage.turn(SECOND - MS);
        assert!(stage.answers.lock().unwrap().is_empty());
        stage.turn(MS);
        assert_eq!(stage.refusal(), wanted);
    }
}

#[test]
fn a_grant_by_the_former_session_is_given_back_when_the_next_has_its_place() {
    let mut stage = Stage::new(2);
    let id = stage.acquire("k".into(), None);
    let old = stage.table.present;
    stage.open(old);
    stage.event(old, 0, Event::Draining(BrokerDraining::default()));
    stage.open(1 - old);
    stage.grant(old, id, 7, 3 * SECOND, 0);
    assert!(stage.answers.lock().unwrap().is_empty() && stage.last(release).is_none());
    stage.event(1 - old, id, Event::Queued(AcquireQueued::default()));
    assert_eq!(stage.last(release).map(|(l, _, release)| (l, release.acquire_id)), Some((old, id)));
    let goodbye = |command: &Command| matches!(command, Command::Goodbye(_)).then_some(());
    assert_eq!(stage.last(goodbye).map(|(l, ..)| l), Some(old));
}

#[test]
fn a_heartbeat_leaves_before_half_of_a_grant_is_gone() {
    let mut stage = Stage::new(1);
    let id = stage.acquire("k".into(), None);
    stage.open(0);
    stage.grant(0, id, 7, 200 * MS, 0);
    let beat = |command: &Command| matches!(command, Command::Heartbeat(_)).then_some(());
    stage.turn(99 * MS);
    assert!(stage.last(beat).is_none());
    stage.turn(MS);
    assert!(stage.last(beat).is_some());
    assert_ne!(stage.table.wake(), NEVER);
}

#[test]
fn stats_count_locks() {
    let mut stage = Stage::new(1);
    stage.held(resume("k"));
    stage.acquire("other".into(), None);
    let stats = stage.table.stats(stage.now);
    assert_eq!((stats.held, stats.waiting, stats.at_risk), (1, 1, 0));
    stage.break_off(0, None);
    let stats = stage.table.stats(stage.now);
    assert_eq!((stats.held, stats.waiting, stats.at_risk), (1, 1, 1));
}

#[test]
fn what_a_client_shows_of_itself() {
    let settings = |token: &str, file: Option<&str>| Settings {
        token: (!token.is_empty()).then(|| token.into()),
        token_file: file.map(Into::into),
        ..Settings::default()
    };
    let access = Access::new(&settings("one", None)).ok().unwrap();
    for address in ["unix:///s", "tls://a:1", "127.0.0.1:1", "localhost:1", "[::1]:1"] {
        assert_eq!(access.authorization(address), "Bearer one");
    }
    assert_eq!(access.authorization("10.0.0.1:1"), "", "not in plain text through a network");
    let problem = |settings, address: &str| {
        Access::new(&settings).and_then(|access| access.addresses(address)).err().map(|error| error.to_string())
    };
    let told = |problem: Option<String>, why: &str| assert!(problem.as_ref().unwrap().contains(why), "{problem:?}");
    told(problem(settings("one", Some("f")), ""), "token or token_file, not both");
    told(problem(settings("two words", None), ""), "must be one word");
    told(problem(settings("", Some("/nosuch")), "unix:///s"), "the token's file: /nosuch: ");
    told(problem(settings("", Some("/proc/self/limits")), "unix:///s"), "must hold the token alone");
    assert_eq!(problem(settings("", Some("/nosuch")), "10.0.0.1:1"), None, "it is not shown there");
    let tls = Settings { tls: Some(Tls::default()), ..Settings::default() };
    told(problem(tls, "127.0.0.1:1"), "no address begins with tls:");
}
