// SPDX-License-Identifier: Apache-2.0
//! The Rust crate, as client/conformance drives it. Commands come as JSON lines on stdin; what the crate says goes out
//! as JSON lines on stdout. client/conformance/README.md lists both.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::v1::{AcquireQueued, LockMode, LockSpec, OnDisconnect, ReleaseOutcome};
use distlock::{Client, Error, Guard, Options, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::task::{JoinHandle, spawn, yield_now};

type Done = Result<(), Box<dyn std::error::Error>>;

#[derive(Default)]
struct Driver {
    address: String,
    client: Option<Client>,
    asked: HashMap<String, JoinHandle<()>>,
    held: Arc<Mutex<HashMap<String, Arc<Guard>>>>,
}

fn boot_now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Writes one line to stdout, whole and at once.
fn say(event: &str, lock: &str, mut more: Value) {
    (more["event"], more["lock"]) = (event.into(), lock.into());
    if more["at"].is_null() {
        more["at"] = boot_now().into();
    }
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{more}").and_then(|()| out.flush()).is_err() {
        std::process::exit(3); // nobody reads any more
    }
}

/// The deadline, or a few microseconds less.
fn until(guard: &Guard) -> i64 {
    boot_now() + guard.valid_for().as_nanos() as i64
}

fn reason_of(error: &Error) -> (&str, Vec<&str>) {
    match error {
        Error::Refused(refusal) => {
            (&refusal.reason, refusal.wire.holders.iter().map(|one| one.owner.as_str()).collect())
        }
        Error::Closed => ("CLIENT_CLOSED", vec![]),
        _ => ("LOST", vec![]),
    }
}

fn granted(name: String, guard: Guard, held: &Mutex<HashMap<String, Arc<Guard>>>) {
    let lost = guard.lost();
    let grant = json!({"token": guard.token(), "hold_count": guard.hold_count(), "until": until(&guard)});
    held.lock().unwrap().insert(name.clone(), Arc::new(guard));
    say("granted", &name, grant);
    spawn(async move {
        let lost = lost.await;
        if lost.cause != "GIVEN_BACK" {
            say("lost", &name, json!({"cause": lost.cause, "message": lost.message}));
        }
    });
}

fn spec(line: &Value, key: &str) -> LockSpec {
    let term = |name: &str| line[name].as_u64().and_then(|ms| Duration::from_millis(ms).try_into().ok());
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let count = |name: &str| line[name].as_i64().unwrap_or_default() as i32;
    let on_disconnect = OnDisconnect::from_str_name(&format!("ON_DISCONNECT_{}", text("on_disconnect")));
    LockSpec {
        mode: LockMode::from_str_name(&format!("LOCK_MODE_{}", text("mode"))).unwrap_or_default().into(),
        limit: count("limit"),
        permits: count("permits"),
        ttl: term("ttl_ms"),
        max_hold: term("max_hold_ms"),
        lock_delay: term("lock_delay_ms"),
        min_hold: term("min_hold_ms"),
        on_disconnect: on_disconnect.unwrap_or_default().into(),
        owner: text("owner").into(),
        reentrant: line["reentrant"] == true,
        resume: line["resume"] == true,
        ..LockSpec::from(key)
    }
}

fn state(name: &str, guard: &Guard) {
    let at = boot_now(); // before the question: so long at least the answer is true
    let (risk, until, ended) = (guard.at_risk(), until(guard), guard.check().err());
    let state = match &ended {
        None if risk => "AT_RISK",
        None => "HELD",
        Some(lost) if lost.cause == "GIVEN_BACK" => "RELEASED",
        Some(_) => "LOST",
    };
    let cause = ended.map_or("", |lost| lost.cause);
    say("state", name, json!({"at": at, "state": state, "cause": cause, "token": guard.token(), "until": until}));
}

impl Driver {
    fn acquire(&mut self, line: &Value, keys: &[&str], names: Vec<String>) -> Done {
        let client = self.client.clone().ok_or("not connected")?;
        let (held, first, name) = (self.held.clone(), names[0].clone(), names[0].clone());
        let specs = keys.iter().map(|key| spec(line, key)).collect();
        let on_queued = move |queued: AcquireQueued| say("queued", &name, json!({"position": queued.position}));
        let wait = line["wait_ms"].as_u64().map(Duration::from_millis);
        let options = Options { wait, on_queued: Some(Arc::new(on_queued)) };
        let asked = spawn(async move {
            match client.lock_all(specs, &options).await {
                Ok(guards) => names.into_iter().zip(guards).for_each(|(name, guard)| granted(name, guard, &held)),
                Err(error) => {
                    let (reason, holders) = reason_of(&error);
                    let refusal = json!({"reason": reason, "message": error.to_string(), "holders": holders});
                    names.iter().for_each(|name| say("refused", name, refusal.clone()));
                }
            }
        });
        self.asked.insert(first, asked);
        Ok(())
    }

    fn connect(&mut self, line: &Value) -> Done {
        let unreachable_after = line["unreachable_ms"].as_u64().map(Duration::from_millis);
        let settings = Settings { label: Some("conformance".into()), unreachable_after, ..Default::default() };
        self.address = line["address"].as_str().unwrap_or_default().into();
        let client = Client::connect(&self.address, settings)?;
        let mut draining = client.draining();
        spawn(async move {
            while draining.changed().await.is_ok() {
                let left = draining.borrow_and_update().unwrap_or_default();
                say("draining", "", json!({"time_left_ms": left.as_millis() as u64}));
            }
        });
        self.client = Some(client);
        Ok(())
    }

    /// Starts another driver, which makes its tries, and kills it when it has told what it has taken.
    fn spawn(&self, keys: &[&str]) -> Done {
        let mut worker = tokio::process::Command::new(std::env::current_exe()?);
        let mut worker = worker.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let acquires = keys.iter().map(|key| json!({"do": "acquire", "lock": key, "key": key, "wait_ms": 0}));
        let mut lines = vec![json!({"do": "connect", "address": self.address})];
        lines.extend(acquires);
        let (mut orders, said) = (worker.stdin.take().expect("piped"), worker.stdout.take().expect("piped"));
        spawn(async move {
            let (mut said, mut taken) = (BufReader::new(said).lines(), vec![]);
            for (number, line) in lines.iter().enumerate() {
                let _ = orders.write_all(format!("{line}\n").as_bytes()).await;
                while taken.len() < number
                    && let Ok(Some(text)) = said.next_line().await
                {
                    let event: Value = serde_json::from_str(&text).unwrap_or_default();
                    let granted = (event["event"] == "granted").then(|| json!("GRANTED"));
                    taken.extend(granted.or(event.get("reason").cloned()));
                }
            }
            let _ = worker.kill().await;
            say("worker", "", json!({"taken": taken}));
        });
        Ok(())
    }

    fn obey(&mut self, line: &Value) -> Done {
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let keys: Vec<_> = line["keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let (name, held) = (text("lock").to_string(), self.held.clone());
        let guard = held.lock().unwrap().get(&name).cloned();
        match (text("do"), guard, self.client.clone()) {
            ("connect", ..) => return self.connect(line),
            ("spawn", ..) => return self.spawn(&keys),
            ("acquire", ..) => return self.acquire(line, &[text("key")], vec![name]),
            ("acquire_all", ..) => {
                let names = (0..keys.len()).map(|i| format!("{name}.{i}")).collect();
                return self.acquire(line, &keys, names);
            }
            ("close", _, Some(client)) => spawn(async move {
                client.close().await;
                say("closed", "", json!({}));
            }),
            ("cancel", guard, _) => {
                self.asked.get(&name).ok_or("it was not asked for")?.abort();
                if guard.is_none() {
                    say("refused", &name, json!({"reason": "CANCELLED", "message": "withdrawn", "holders": []}));
                }
                return Ok(());
            }
            ("state", Some(guard), _) => spawn(async move { state(&name, &guard) }),
            ("downgrade", Some(guard), _) => spawn(async move {
                match guard.downgrade().await {
                    Ok(()) => say("downgraded", &name, json!({})),
                    Err(error) => say("not_downgraded", &name, json!({"reason": reason_of(&error).0})),
                }
            }),
            ("release", Some(guard), _) => spawn(async move {
                let since = boot_now();
                let outcome = match guard.release().await {
                    Ok(ReleaseOutcome::StillHeld) => "STILL_HELD",
                    Ok(_) => "RELEASED",
                    Err(Error::Lost(_)) => "ALREADY_GONE",
                    Err(_) => "UNKNOWN",
                };
                say("released", &name, json!({"outcome": outcome, "since": since}));
            }),
            (what, ..) => return Err(format!("cannot {what} {name:?}").into()),
        };
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")] // tasks begin in the order of the lines
async fn main() {
    let features = ["cancel", "queued", "many", "ordered", "worker"];
    say("ready", "", json!({"language": "Rust", "features": features}));
    let (lines, mut read) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|l| lines.send(l)));
    let mut driver = Driver::default();
    while let Some(text) = read.recv().await {
        let line = serde_json::from_str(&text).unwrap_or_default();
        if let Err(message) = driver.obey(&line) {
            say("failed", "", json!({"line": text, "message": message.to_string()}));
        }
        yield_now().await;
    }
    std::process::exit(0); // without a goodbye
}
