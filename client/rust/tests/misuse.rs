// SPDX-License-Identifier: Apache-2.0
//! Programs that use the crate as it is not meant, with a real broker: no lock is left. As tests/real.rs.

mod world;

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use distlock::{Client, Error, Guard, Options, Settings, Stats};
use world::{PATIENCE, World};

/// Runs a future on this thread, without a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

fn lock(client: &Client, key: &str) -> Guard {
    block_on(client.mutex(key, Options::wait(PATIENCE)).lock()).unwrap()
}

#[test]
fn a_program_without_a_runtime() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    let told = Arc::new(std::sync::Mutex::new(0));
    let count = told.clone();
    let held = lock(&one, "k");
    let on_queued = Arc::new(move |_| *count.lock().unwrap() += 1);
    let options = Options { wait: Some(Duration::from_millis(200)), on_queued: Some(on_queued) };
    let refused = block_on(other.mutex("k", options).lock());
    assert!(matches!(refused, Err(Error::Refused(refusal)) if refusal.reason == "WAIT_TIMEOUT"));
    assert_eq!(*told.lock().unwrap(), 1);
    std::thread::spawn(move || drop(held)).join().unwrap();
    assert!(lock(&other, "k").is_held());
    block_on(one.drained());
    block_on(one.close());
}

#[test]
fn a_guard_that_outlives_its_runtime() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let held = runtime.block_on(one.mutex("k", Options::default()).lock()).unwrap();
    let mutex = other.mutex("k", Options::default());
    let waits = runtime.spawn(async move { mutex.lock().await });
    while other.stats().waiting == 0 {
        std::thread::yield_now();
    }
    drop(runtime); // and with it the task that waits
    assert!(waits.is_finished() && other.stats().waiting == 0);
    assert!(held.is_held());
    let lost = held.lost();
    drop(held);
    assert_eq!(block_on(lost).cause, "GIVEN_BACK");
    assert!(lock(&other, "k").is_held());
}

#[test]
fn panics_while_locks_are_held() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    let held = lock(&one, "thread");
    let ended = std::thread::spawn(move || -> () { panic!("by the test: {}", held.is_held()) }).join();
    assert!(ended.is_err());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mutex = one.mutex("task", Options::default());
    let ended = runtime.block_on(runtime.spawn(async move {
        let _held = mutex.lock().await.unwrap();
        panic!("by the test");
    }));
    assert!(ended.is_err());
    let told = Options { on_queued: Some(Arc::new(|_| panic!("by the test"))), ..Options::wait(PATIENCE) };
    let busy = lock(&other, "queue");
    let mutex = one.mutex("queue", told);
    let waits = runtime.spawn(async move { mutex.lock().await.map(|held| held.is_held()) });
    while one.stats().waiting == 0 {
        std::thread::yield_now();
    }
    drop(busy);
    assert!(runtime.block_on(waits).unwrap().unwrap());
    for key in ["thread", "task", "queue"] {
        assert!(lock(&other, key).is_held());
    }
}

/// DISTLOCK_CANCELLATIONS: how many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_that_are_dropped_at_any_moment() {
    let Some(world) = World::start() else { return };
    let clients = [world.client(), world.client()];
    let wanted = std::env::var("DISTLOCK_CANCELLATIONS").map_or(1000, |count| count.parse().unwrap());
    let (mut cancelled, mut number) = (0, 0);
    while cancelled < wanted {
        number += 1;
        let client = clients[number % 2].clone();
        let wait = [None, Some(Duration::ZERO), Some(Duration::from_millis(2))][number % 3];
        let options = Options { wait, ..Options::default() };
        let taken = async move {
            if number % 5 == 0 {
                client.lock_all(vec!["k0".into(), "k1".into()], &options).await.map(drop)
            } else {
                client.mutex(format!("k{}", number % 3).as_str(), options).lock().await.map(drop)
            }
        };
        let after = Duration::from_micros(u64::from(rand()) % 2000);
        if number % 2 == 0 {
            cancelled += usize::from(tokio::time::timeout(after, taken).await.is_err());
            continue;
        }
        let task = tokio::spawn(taken);
        tokio::time::sleep(after).await;
        task.abort();
        cancelled += usize::from(task.await.is_err_and(|error| error.is_cancelled()));
    }
    let nothing = Stats { held: 0, waiting: 0, at_risk: 0 };
    for client in &clients {
        tokio::time::timeout(PATIENCE, client.drained()).await.expect("all is given back");
        assert_eq!(client.stats(), nothing);
    }
    let keys = ["k0", "k1", "k2"].map(Into::into).to_vec();
    world.client().lock_all(keys, &Options::wait(PATIENCE)).await.expect("no lock and no waiter is left");
}

/// The nanoseconds, which are random enough here.
fn rand() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos() / 7
}

/// No test: the child of the next one.
#[test]
fn ending() {
    let Ok(address) = std::env::var("END_UNDER_A_LOCK_OF") else { return };
    let client = Client::connect(&address, Settings::default()).unwrap();
    let held = lock(&client, "k");
    println!("held {}", held.is_held());
    std::process::exit(3);
}

#[test]
fn a_program_that_exits_in_a_body() {
    let Some(world) = World::start() else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ending", "--nocapture"])
        .env("END_UNDER_A_LOCK_OF", world.address())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("held true") && child.wait().unwrap().code() == Some(3), "{said}");
    let began = Instant::now();
    assert!(lock(&world.client(), "k").is_held());
    assert!(began.elapsed() < Duration::from_secs(40), "its ttl is 60 s: {:?}", began.elapsed());
}
