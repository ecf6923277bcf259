// SPDX-License-Identifier: Apache-2.0
//! Real brokers for the tests.
#![allow(dead_code)] // each test file uses a part

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use distlock::{Client, Error, Options, Settings};

pub const PATIENCE: Duration = Duration::from_secs(30);
static WORLDS: AtomicU32 = AtomicU32::new(0);

/// A broker in a folder of its own, whose store outlives it.
pub struct World {
    program: String,
    pub folder: PathBuf,
    more: Vec<String>,
    broker: Child,
}

impl World {
    pub fn start() -> Option<World> {
        World::prepare(|_| Vec::new())
    }

    /// `more` puts into the folder what these options of the broker need.
    pub fn prepare(more: impl FnOnce(&Path) -> Vec<String>) -> Option<World> {
        let program = std::env::var("DISTLOCKD").ok()?;
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("dlrust{}.{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let more = more(&folder);
        let broker = launch(&program, &folder, &more);
        Some(World { program, folder, more, broker })
    }

    pub fn address(&self) -> String {
        format!("unix://{}/b.sock", self.folder.display())
    }

    pub fn client(&self) -> Client {
        let settings = Settings { unreachable_after: Some(PATIENCE), ..Settings::default() };
        Client::connect(&self.address(), settings).unwrap()
    }

    pub fn kill(&mut self) {
        self.broker.kill().unwrap();
        self.broker.wait().unwrap();
    }

    pub fn launch(&mut self) {
        self.broker = launch(&self.program, &self.folder, &self.more);
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

fn launch(program: &str, folder: &Path, more: &[String]) -> Child {
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
        .args(more)
        .stdout(Stdio::null())
        .stderr(std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap())
        .spawn()
        .unwrap()
}

pub async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn reason(error: Error) -> String {
    match error {
        Error::Refused(refusal) => refusal.reason,
        other => other.to_string(),
    }
}

pub fn one_try() -> Options {
    Options::wait(Duration::ZERO)
}
