// SPDX-License-Identifier: Apache-2.0
//! The crate with a real broker and its embedded store: DISTLOCKD=PROGRAM cargo test --test real. Without that variable
//! nothing is tested here.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use distlock::v1::{LockMode, LockSpec, ReleaseOutcome};
use distlock::{Client, Error, Options, Settings, Stats};

const PATIENCE: Duration = Duration::from_secs(30);
static WORLDS: AtomicU32 = AtomicU32::new(0);

/// A broker in a folder of its own, whose store outlives it.
struct World {
    program: String,
    folder: PathBuf,
    broker: Child,
}

impl World {
    fn start() -> Option<World> {
        let program = std::env::var("DISTLOCKD").ok()?;
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("dlrust{}.{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let broker = launch(&program, &folder);
        Some(World { program, folder, broker })
    }

    fn address(&self) -> String {
        format!("unix://{}/b.sock", self.folder.display())
    }

    fn client(&self) -> Client {
        let settings = Settings { unreachable_after: Some(PATIENCE), ..Settings::default() };
        Client::connect(&self.address(), settings).unwrap()
    }

    fn kill(&mut self) {
        self.broker.kill().unwrap();
        self.broker.wait().unwrap();
    }

    fn launch(&mut self) {
        self.broker = launch(&self.program, &self.folder);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.broker.kill();
        let _ = self.broker.wait();
        if let Ok(store) = std::fs::read_to_string(self.folder.join("store/store.pid")) {
            let _ = Command::new("kill").arg(store.trim()).status();
        }
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

fn launch(program: &str, folder: &Path) -> Child {
    let listen = format!("unix://{}/b.sock", folder.display());
    Command::new(program)
        .args(["--listen", &listen, "--embedded-dir"])
        .arg(folder.join("store"))
        .args([
            "--http",
            "",
            "--failover-hold-off",
            "0",
            "--validity",
            "20s",
            "--default-ttl",
            "60s",
            "--store-timeout",
            "30s",
        ])
        .stdout(Stdio::null())
        .stderr(std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap())
        .spawn()
        .unwrap()
}

async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn reason(error: Error) -> String {
    match error {
        Error::Refused(refusal) => refusal.reason,
        other => other.to_string(),
    }
}

fn one_try() -> Options {
    Options::wait(Duration::ZERO)
}

#[tokio::test]
async fn all_kinds_of_locks() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    let held =
        one.mutex(LockSpec { owner: "me".into(), ..LockSpec::from("k") }, Options::default()).lock().await.unwrap();
    assert!(held.is_held() && held.valid_for() > Duration::ZERO && !held.at_risk());
    let Err(Error::Refused(busy)) = other.mutex("k", one_try()).lock().await else { panic!("it is held") };
    assert!(busy.is_busy() && busy.wire.holders[0].owner == "me" && busy.wire.holders[0].fencing_token == held.token());
    let waited = other.mutex("k", Options::wait(Duration::from_millis(50))).lock().await;
    assert_eq!(waited.err().map(reason).as_deref(), Some("WAIT_TIMEOUT"));
    assert_eq!(held.release().await.unwrap(), ReleaseOutcome::Released);
    let later = other.mutex("k", Options::default()).lock().await.unwrap();
    assert!(later.token() > held.token(), "tokens grow");
    assert!(matches!(held.release().await, Err(Error::Lost(lost)) if lost.cause == "GIVEN_BACK"));

    let readers = (one.rw_lock("r", Options::default()).read().await, other.rw_lock("r", one_try()).read().await);
    assert!(readers.0.is_ok() && readers.1.is_ok());
    assert_eq!(one.rw_lock("r", one_try()).write().await.err().map(reason).as_deref(), Some("LOCK_HELD"));

    let permits = one.semaphore("s", 3, Options::default()).acquire(2).await.unwrap();
    assert_eq!(other.semaphore("s", 3, one_try()).acquire(2).await.err().map(reason).as_deref(), Some("LOCK_HELD"));
    drop(permits);
    other.semaphore("s", 3, Options::wait(PATIENCE)).acquire(2).await.unwrap();

    let shared = LockSpec { mode: LockMode::Shared.into(), ..LockSpec::from("b") };
    let both = one.lock_all(vec!["a".into(), shared], &one_try()).await.unwrap();
    assert_eq!(both.len(), 2);
    let writer = one.mutex("d", one_try()).lock().await.unwrap();
    writer.downgrade().await.unwrap();
    other.rw_lock("d", one_try()).read().await.unwrap();
    assert_eq!(one.stats(), Stats { held: 4, waiting: 0, at_risk: 0 });
}

#[tokio::test]
async fn dropping_a_guard_or_a_future_gives_back() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    let mutex = one.mutex("k", Options::default());
    drop(mutex.lock().await.unwrap());
    let again = one.mutex("k", one_try()).lock().await.expect("commands keep their order");
    let waits = other.mutex("k", Options::default());
    assert!(tokio::time::timeout(Duration::from_millis(50), waits.lock()).await.is_err());
    assert_eq!(other.stats().waiting, 0);
    let lost = again.lost();
    drop(again);
    assert_eq!(lost.await.cause, "GIVEN_BACK");
    mutex.lock().await.expect("nobody waits for it any more");
    other.close().await;
    assert!(matches!(other.mutex("k", one_try()).lock().await, Err(Error::Closed)));
}

#[tokio::test]
async fn closing_tells_those_who_hold_and_wait() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    let held = one.mutex("k", Options::default()).lock().await.unwrap();
    let waits = one.mutex("k", Options::default());
    let (answer, ()) = tokio::join!(waits.lock(), async {
        eventually("it waits", || one.stats().waiting == 1).await;
        one.close().await;
    });
    assert!(matches!(answer, Err(Error::Closed)));
    assert_eq!(held.lost().await.cause, "CLIENT_CLOSED");
    other.mutex("k", one_try()).lock().await.expect("the broker has heard the goodbye");
}

#[tokio::test]
async fn a_broker_that_is_killed_costs_all_but_resume() {
    let Some(mut world) = World::start() else { return };
    let client = world.client();
    let lost = client.mutex("lost", Options::default()).lock().await.unwrap();
    let kept = LockSpec { resume: true, ..LockSpec::from("kept") };
    let kept = client.mutex(kept, Options::default()).lock().await.unwrap();
    world.kill();
    assert_eq!(lost.lost().await.cause, "DISCONNECTED");
    eventually("it is at risk", || kept.at_risk()).await;
    world.launch();
    eventually("it goes on", || kept.is_held() && !kept.at_risk()).await;
    let other = world.client();
    assert_eq!(other.mutex("kept", one_try()).lock().await.err().map(reason).as_deref(), Some("LOCK_HELD"));
    assert_eq!(kept.release().await.unwrap(), ReleaseOutcome::Released);
}

#[tokio::test]
async fn what_is_given_back_without_a_broker_is_free_as_soon_as_there_is_one() {
    let Some(mut world) = World::start() else { return };
    let client = world.client();
    let spec = LockSpec { resume: true, ..LockSpec::from("k") };
    let gap = client.mutex(spec, Options::default()).lock().await.unwrap();
    world.kill();
    eventually("the break", || gap.at_risk()).await;
    assert!(matches!(gap.release().await, Err(Error::UnknownOutcome)));
    world.launch();
    let began = Instant::now();
    world.client().mutex("k", Options::wait(PATIENCE)).lock().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "long before its ttl of 60 s: {:?}", began.elapsed());
}
