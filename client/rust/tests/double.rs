// SPDX-License-Identifier: Apache-2.0
//! distlock::testing: how a program that takes locks is tested without a daemon.

use std::time::Duration;

use distlock::testing::Broker;
use distlock::v1::{LockSpec, LostReason, OnDisconnect, RefusalReason, ReleaseOutcome};
use distlock::{Client, Error, Guard, Options, Settings, Stats};
use tokio::task::{JoinHandle, spawn, yield_now};

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

fn one_try() -> Options {
    Options::wait(Duration::ZERO)
}

async fn lock(client: &Client, spec: impl Into<LockSpec>) -> Guard {
    client.mutex(spec, one_try()).lock().await.unwrap()
}

async fn refused(client: &Client, key: &str) -> Option<String> {
    match client.mutex(key, one_try()).lock().await {
        Err(Error::Refused(refusal)) => Some(refusal.reason),
        _ => None,
    }
}

/// Waits for the lock in a task of its own, and is in the queue when this returns.
async fn waits(client: &Client, key: &str, options: Options) -> JoinHandle<Result<Guard, Error>> {
    let (mutex, before) = (client.mutex(key, options), client.stats().waiting);
    let task = spawn(async move { mutex.lock().await });
    while client.stats().waiting == before {
        yield_now().await;
    }
    task
}

fn cause(guard: &Guard) -> Option<&'static str> {
    guard.check().err().map(|lost| lost.cause)
}

#[tokio::test]
async fn locks_exclude_each_other() {
    let broker = Broker::new();
    let (mine, theirs) = (broker.client(), broker.client());
    let held = lock(&mine, LockSpec { owner: "me".into(), ..LockSpec::from("k") }).await;
    assert!(held.is_held() && held.token() == 1 && held.valid_for() <= seconds(3.0));
    let Err(Error::Refused(busy)) = theirs.mutex("k", one_try()).lock().await else { panic!("it is held") };
    assert!(busy.is_busy() && busy.wire.holders[0].owner == "me" && busy.wire.holders[0].fencing_token == 1);
    drop(held);
    let held = lock(&theirs, "k").await;
    assert_eq!((held.token(), held.release().await.unwrap()), (2, ReleaseOutcome::Released));

    let readers = (mine.rw_lock("r", one_try()).read().await, theirs.rw_lock("r", one_try()).read().await);
    assert!(readers.0.is_ok() && readers.1.is_ok() && refused(&mine, "r").await.is_some());
    let permits = mine.semaphore("s", 3, one_try()).acquire(2).await.unwrap();
    assert!(theirs.semaphore("s", 3, one_try()).acquire(2).await.is_err());
    theirs.semaphore("s", 3, one_try()).acquire(1).await.unwrap();
    drop(permits);
    let both = mine.lock_all(vec!["a".into(), "b".into()], &one_try()).await.unwrap();
    assert!(theirs.lock_all(vec!["b".into(), "c".into()], &one_try()).await.is_err());
    drop(both);
    lock(&theirs, "c").await.downgrade().await.unwrap();
    assert_eq!(mine.stats(), Stats { held: 1, waiting: 0, at_risk: 0 });
    drop(readers);
    tokio::join!(mine.drained(), theirs.drained());
}

#[tokio::test]
async fn a_reentrant_lock_is_counted() {
    let broker = Broker::new();
    let (mine, theirs) = (broker.client(), broker.client());
    let spec = || LockSpec { owner: "me".into(), reentrant: true, ..LockSpec::from("k") };
    let (one, two) = (lock(&mine, spec()).await, lock(&mine, spec()).await);
    assert_eq!((one.token(), two.hold_count()), (two.token(), 2));
    assert!(theirs.mutex(spec(), one_try()).lock().await.is_err());
    assert_eq!(two.release().await.unwrap(), ReleaseOutcome::StillHeld);
    assert_eq!(one.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn waits_end_by_time_and_by_releases_in_their_order() {
    let broker = Broker::new();
    let (mine, theirs) = (broker.client(), broker.client());
    let held = lock(&mine, "k").await;
    let waiting = waits(&theirs, "k", Options::wait(seconds(30.0))).await;
    broker.advance(seconds(29.9));
    assert!(!waiting.is_finished() && held.is_held());
    broker.advance(seconds(0.1));
    assert!(matches!(waiting.await.unwrap(), Err(Error::Refused(why)) if why.reason == "WAIT_TIMEOUT"));
    let (told, heard) = std::sync::mpsc::channel();
    let on_queued = std::sync::Arc::new(move |queued: distlock::v1::AcquireQueued| told.send(queued.position).unwrap());
    let first = waits(&theirs, "k", Options::default()).await;
    let second = waits(&mine, "k", Options { on_queued: Some(on_queued), ..Options::default() }).await;
    assert_eq!(heard.recv(), Ok(1));
    drop(held);
    let held = first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    drop(held);
    assert!(second.await.unwrap().unwrap().is_held());
    assert_eq!(theirs.stats(), Stats { held: 0, waiting: 0, at_risk: 0 });
}

#[tokio::test]
async fn time_ends_what_it_must() {
    let broker = Broker::new();
    let client = broker.client();
    let spec = |key: &str| LockSpec { key: key.into(), max_hold: seconds(10.0).try_into().ok(), ..LockSpec::default() };
    let held = lock(&client, spec("k")).await;
    let lost = held.lost();
    broker.advance(seconds(9.9));
    assert!(held.is_held() && held.valid_for() <= seconds(0.2));
    broker.advance(seconds(0.1));
    assert_eq!((cause(&held), lost.await.cause), (Some("MAX_HOLD"), "MAX_HOLD"));
    let nightly = LockSpec { min_hold: seconds(60.0).try_into().ok(), ..LockSpec::from("nightly") };
    drop(lock(&client, nightly).await);
    broker.advance(seconds(59.0));
    assert_eq!(refused(&client, "nightly").await.as_deref(), Some("LOCK_HELD"));
    broker.advance(seconds(1.0));
    assert_eq!(refused(&client, "nightly").await, None);
}

#[tokio::test]
async fn losses_that_the_test_makes() {
    let broker = Broker::new();
    let client = broker.client();
    let spec = LockSpec { lock_delay: seconds(20.0).try_into().ok(), ..LockSpec::from("k") };
    let held = lock(&client, spec).await;
    broker.lose("k", LostReason::Taken);
    assert_eq!(cause(&held), Some("TAKEN"));
    assert!(matches!(held.release().await, Err(Error::Lost(lost)) if lost.cause == "TAKEN"));
    assert!(refused(&client, "k").await.is_some());
    broker.advance(seconds(20.0));
    assert_eq!(refused(&client, "k").await, None);
}

#[tokio::test]
async fn a_broker_that_stands_still() {
    let broker = Broker::new();
    let client = broker.client();
    let held = lock(&client, "k").await;
    broker.advance(seconds(100.0));
    assert!(held.is_held() && !held.at_risk());
    broker.freeze();
    broker.advance(seconds(2.0));
    assert!(held.is_held() && held.at_risk());
    broker.advance(seconds(1.0));
    assert_eq!(cause(&held), Some("LAPSED"));
    broker.thaw();
    broker.advance(seconds(5.0));
    assert!(lock(&client, "k").await.is_held());
}

#[tokio::test]
async fn a_broker_that_is_gone_and_comes_back() {
    let broker = Broker::new();
    let client = broker.client();
    let kept = lock(&client, LockSpec { resume: true, ..LockSpec::from("kept") }).await;
    let at_once = LockSpec { on_disconnect: OnDisconnect::Release.into(), ..LockSpec::from("freed") };
    let (plain, freed) = (lock(&client, "plain").await, lock(&client, at_once).await);
    broker.stop();
    assert_eq!((cause(&plain), cause(&freed)), (Some("DISCONNECTED"), Some("DISCONNECTED")));
    assert!(kept.is_held() && kept.at_risk());
    let waiting = waits(&client, "k", one_try()).await;
    broker.advance(seconds(1.0));
    assert!(matches!(waiting.await.unwrap(), Err(Error::Refused(why)) if why.is_unavailable()));
    broker.start();
    broker.advance(seconds(1.5));
    assert!(kept.is_held() && !kept.at_risk());
    assert!(lock(&client, "freed").await.is_held() && refused(&client, "kept").await.is_some());
    broker.advance(seconds(3.0));
    assert!(kept.is_held() && lock(&client, "plain").await.is_held());
    broker.stop();
    broker.advance(seconds(3.0));
    assert_eq!(cause(&kept), Some("LAPSED"));
}

#[tokio::test]
async fn a_shutdown_waits_for_what_is_on_its_way_back() {
    let broker = Broker::new();
    let client = broker.client();
    client.drained().await;
    let held = lock(&client, "k").await;
    let is_drained = async || tokio::time::timeout(Duration::from_millis(20), client.drained()).await.is_ok();
    assert!(!is_drained().await);
    broker.freeze();
    drop(held);
    assert_eq!(client.stats(), Stats { held: 0, waiting: 0, at_risk: 0 });
    assert!(!is_drained().await, "the broker has not confirmed it");
    broker.stop();
    assert!(!is_drained().await, "nor could it: the next session frees it");
    broker.start();
    broker.thaw();
    broker.advance(seconds(2.0));
    client.drained().await;
    assert_eq!(refused(&broker.client(), "k").await, None);
}

#[tokio::test]
async fn refusals_and_the_end() {
    let broker = Broker::new();
    let patient = Settings { unreachable_after: Some(seconds(60.0)), ..Settings::default() };
    let (client, other) = (broker.client(), broker.client_with(patient));
    broker.refuse(Some(RefusalReason::QuotaExceeded));
    assert_eq!(refused(&client, "k").await.as_deref(), Some("QUOTA_EXCEEDED"));
    broker.refuse(Some(RefusalReason::StoreUnavailable));
    assert!(matches!(client.mutex("k", one_try()).lock().await, Err(Error::Refused(why)) if why.is_unavailable()));
    broker.refuse(None);
    let held = lock(&client, "k").await;
    let waiting = waits(&other, "k", Options::default()).await;
    client.close().await;
    assert_eq!(cause(&held), Some("CLIENT_CLOSED"));
    assert!(waiting.await.unwrap().unwrap().is_held());
    assert!(matches!(client.mutex("k", one_try()).lock().await, Err(Error::Closed)));
    broker.stop();
    let waiting = waits(&other, "k", Options::default()).await;
    broker.advance(seconds(59.0));
    assert!(!waiting.is_finished());
    waiting.abort();
    assert!(waiting.await.is_err() && other.stats().waiting == 0);
    drop(other);
    lock(&Broker::new().client(), "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks() {
    let broker = Broker::new();
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, inside) = (broker.client(), inside.clone());
            spawn(async move {
                for _ in 0..200 {
                    let held = client.mutex("k", Options::default()).lock().await.unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    yield_now().await;
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(held);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(lock(&broker.client(), "k").await.token(), 1601);
}
