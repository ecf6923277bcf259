// SPDX-License-Identifier: Apache-2.0
//! The crate with a real broker and its embedded store: DISTLOCKD=PROGRAM cargo test --test real. Without that variable
//! nothing is tested here.

mod world;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use distlock::v1::{LockMode, LockSpec, ReleaseOutcome};
use distlock::{Client, Error, Options, Settings, Stats, Tls};
use world::{PATIENCE, World, eventually, one_try, reason};

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

#[tokio::test]
async fn whoever_names_no_owner_is_named() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    let _held = one.mutex("k", Options::default()).lock().await.unwrap();
    let spec = LockSpec { owner: "me".into(), reentrant: true, ..LockSpec::from("r") };
    let _again = one.mutex(spec, Options::default()).lock().await.unwrap();
    let mut owners = Vec::new();
    for key in ["k", "r"] {
        let Err(Error::Refused(busy)) = other.mutex(key, one_try()).lock().await else { panic!("it is held") };
        owners.push(busy.wire.holders[0].owner.clone());
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let end = format!("@{}:{}", host.trim(), std::process::id());
    assert!(owners[0].strip_suffix(&end).is_some_and(|user| !user.is_empty()), "{owners:?}");
    assert_eq!(owners[1], "me");
}

#[tokio::test]
async fn a_shutdown_waits_until_all_is_given_back() {
    let Some(world) = World::start() else { return };
    let (one, other) = (world.client(), world.client());
    one.drained().await;
    let held = one.mutex("k", Options::default()).lock().await.unwrap();
    let soon =
        |client: Client| async move { tokio::time::timeout(Duration::from_millis(50), client.drained()).await.is_ok() };
    assert!(!soon(one.clone()).await);
    drop(held);
    one.drained().await;
    let held = other.mutex("k", one_try()).lock().await.expect("the broker has confirmed it");
    let waits = tokio::spawn({
        let mutex = one.mutex("k", Options::default());
        async move { mutex.lock().await.map(drop) }
    });
    eventually("it waits", || one.stats().waiting == 1).await;
    assert!(!soon(one.clone()).await);
    drop(held);
    waits.await.unwrap().unwrap();
    one.drained().await;
    let _held = one.mutex("k", Options::default()).lock().await.unwrap();
    one.close().await;
    one.drained().await;
}

/// ca.pem, and what it has signed: broker.pem and client.pem with their keys.
fn make_certificates(folder: &Path) {
    let openssl = |words: &str| {
        let made = Command::new("openssl").current_dir(folder).args(words.split(' ')).stderr(Stdio::null()).status();
        assert!(made.unwrap().success(), "openssl {words}");
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem"));
    for (name, names) in [("broker", "DNS:localhost,IP:127.0.0.1"), ("client", "DNS:client.test")] {
        std::fs::write(folder.join(format!("{name}.ext")), format!("subjectAltName={names}\n")).unwrap();
        openssl(&format!("req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile {name}.ext -out \
             {name}.pem"
        ));
    }
}

#[tokio::test]
async fn a_client_too_many_is_told_which_limit() {
    let limits = |_: &Path| vec!["--limits".into(), "max-connections-per-peer=2".into()];
    let Some(world) = World::prepare(limits) else { return };
    let first = world.client().mutex("a", Options::default()).lock().await.unwrap();
    let second = world.client().mutex("b", Options::default()).lock().await.unwrap();
    let many = Client::connect(&world.address(), Settings::default()).unwrap();
    let refused = many.mutex("c", one_try()).lock().await.err().unwrap().to_string();
    assert!(refused.contains("limit max-connections-per-peer"), "{refused}");
    assert!(first.is_held() && second.is_held());
}

#[tokio::test]
async fn each_client_has_its_own_certificates_and_token() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(world) = World::prepare(|folder| {
        make_certificates(folder);
        let text = |name: &str| folder.join(name).display().to_string();
        let mut more = vec!["--listen".into(), format!("127.0.0.1:{port}"), "--allow-all".into()];
        for (flag, name) in [("--tls-cert", "broker.pem"), ("--tls-key", "broker.key"), ("--tls-client-ca", "ca.pem")] {
            more.extend([flag.into(), text(name)]);
        }
        more
    }) else {
        return;
    };
    let pem = |name: &str| Some(world.folder.join(name));
    let right = Tls { ca: pem("ca.pem"), cert: pem("client.pem"), key: pem("client.key"), server_name: None };
    let address = format!("tls://localhost:{port}");
    let connect = |tls: Tls| {
        let settings = Settings { tls: Some(tls), unreachable_after: Some(PATIENCE), ..Settings::default() };
        Client::connect(&address, settings)
    };
    let dl = connect(right.clone()).unwrap();
    let held = dl.mutex("k", Options::default()).lock().await.unwrap();
    for (tls, why) in [
        (Tls { cert: None, key: None, ..right.clone() }, "may want a client certificate"),
        (Tls { ca: None, ..right.clone() }, "UnknownIssuer"),
        (Tls { server_name: Some("other.test".into()), ..right.clone() }, "not valid for name"),
    ] {
        let settings = Settings { tls: Some(tls), ..Settings::default() };
        let other = Client::connect(&address, settings).unwrap();
        let refused = other.mutex("k", one_try()).lock().await.err().unwrap().to_string();
        assert!(refused.contains("UNREACHABLE") && refused.contains(why), "{refused}");
    }
    let plain = Client::connect(&format!("localhost:{port}"), Settings::default()).unwrap();
    let refused = plain.mutex("k", one_try()).lock().await.err().unwrap().to_string();
    assert!(refused.contains("or TLS (the address is tls://host:port then)"), "{refused}");
    assert!(held.is_held());
    let problem = |tls: Tls| connect(tls).err().unwrap().to_string();
    assert!(problem(Tls { ca: pem("none.pem"), ..right.clone() }).contains("tls.ca: its file cannot be read"));
    assert!(problem(Tls { key: None, ..right }).contains("tls.cert and tls.key belong together"));
}
