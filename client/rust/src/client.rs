// SPDX-License-Identifier: Apache-2.0
//! The API for programs.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::channel::{Access, claim, invalid};
use crate::core::Core;
use crate::engine::{GIVEN_BACK, Granted, Request, Seen, Stats, Table, Told};
use crate::error::{Error, Lost, Refusal};
use crate::link::{Nanos, nanos};
use crate::testing;
use crate::v1::{AcquireQueued, LockMode, LockSpec, ReleaseOutcome};

type Queued = Arc<dyn Fn(AcquireQueued) + Send + Sync>;

/// How to wait.
#[derive(Clone, Default)]
pub struct Options {
    /// None: until the lock is granted. Zero: one try.
    pub wait: Option<Duration>,
    /// Told of the place in the queue, on a thread of its own.
    pub on_queued: Option<Queued>,
}

impl Options {
    /// Waits for so long at most; zero is one try.
    pub fn wait(wait: Duration) -> Options {
        Options { wait: Some(wait), ..Options::default() }
    }
}

impl From<&str> for LockSpec {
    fn from(key: &str) -> LockSpec {
        LockSpec { key: key.into(), ..LockSpec::default() }
    }
}

/// Settings of a client.
#[derive(Clone, Default)]
pub struct Settings {
    /// Names the program in ListSessions; without it the executable's name.
    pub label: Option<String>,
    /// How long a request looks for a broker. Without it one try 1 s, a wait with an end all of it, another one 10 s.
    pub unreachable_after: Option<Duration>,
    /// Locks do not end with this process, because others act under them.
    pub outlives_process: bool,
    /// Without it the variables DISTLOCK_TLS_CA, _CERT, _KEY and _SERVER_NAME.
    pub tls: Option<Tls>,
    /// The bearer token, else that of `token_file`, else of the file that DISTLOCK_TOKEN_FILE names.
    pub token: Option<String>,
    /// A file with the token alone, which is read again with each heartbeat.
    pub token_file: Option<PathBuf>,
}

/// Files for `tls://` addresses, as PEM. They are read again at each connect.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// The broker's authorities; without it the system's.
    pub ca: Option<PathBuf>,
    /// The client's own certificate, and its key.
    pub cert: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// The name that the broker's certificate must have, if it is not the host of the address.
    pub server_name: Option<String>,
}

/// A connection to the brokers: one session for all locks of the process. Clones are the same client, which closes
/// when the last of them and of its guards is dropped.
#[derive(Clone)]
pub struct Client(Arc<Owner>);

struct Owner(Arc<Core>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.with(|table, now| table.close(now));
    }
}

impl Client {
    /// Makes a client, which connects at its first acquire. `address`: brokers of one store, separated by commas, each
    /// `unix:///path`, `host:port` or `tls://host:port`; "" is DISTLOCK_SERVER, else the local socket, else loopback.
    pub fn connect(address: &str, settings: Settings) -> Result<Client, Error> {
        let program = || std::env::args().next().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_string();
        let access = Access::new(&settings)?;
        let mut table = Table::new(access.addresses(address)?);
        table.label = settings.label.unwrap_or_else(program).chars().take(64).collect(); // at most 256 bytes
        table.unreachable_after = settings.unreachable_after.map(nanos);
        table.claim = claim().filter(|_| !settings.outlives_process);
        Ok(Client(Arc::new(Owner(Core::new(table, access, None).start()?))))
    }

    /// A client of a test's broker.
    pub(crate) fn inside(mut table: Table, settings: Settings, broker: Arc<testing::Inside>) -> Client {
        table.unreachable_after = settings.unreachable_after.map(nanos);
        Client(Arc::new(Owner(Core::new(table, Access::default(), Some(broker)))))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.0
    }

    /// A mutex. `spec` is a key, or a `LockSpec` with other terms too, such as an owner, a ttl or `resume`.
    pub fn mutex(&self, spec: impl Into<LockSpec>, options: Options) -> Mutex {
        Mutex(self.clone(), spec.into(), options)
    }

    /// A read-write lock.
    pub fn rw_lock(&self, spec: impl Into<LockSpec>, options: Options) -> RwLock {
        RwLock(self.clone(), spec.into(), options)
    }

    /// A semaphore of `limit` permits. Callers that run at the same time name the same limit.
    pub fn semaphore(&self, spec: impl Into<LockSpec>, limit: i32, options: Options) -> Semaphore {
        Semaphore(self.clone(), LockSpec { limit, ..spec.into() }, options)
    }

    /// Takes up to 64 different locks, all or nothing. The order does not matter: callers never wait in a circle.
    /// Dropping the future withdraws the request.
    pub async fn lock_all(&self, mut specs: Vec<LockSpec>, options: &Options) -> Result<Vec<Guard>, Error> {
        if specs.is_empty() {
            return Err(invalid("no lock is named"));
        }
        for spec in specs.iter_mut().filter(|spec| spec.owner.is_empty() && !spec.reentrant) {
            spec.owner.clone_from(&self.0.0.owner);
        }
        let ((told, heard), owner, core) = (oneshot::channel(), self.0.clone(), &self.0.0);
        let answer = move |granted: Granted| {
            let guard = |seen| Guard { seen, owner: owner.clone() }; // one that nobody waits for is dropped: given back
            let _ = told.send(granted.map(|all| all.into_iter().map(guard).collect::<Vec<_>>()));
        };
        // The program's function has a thread of its own: one that blocks keeps no heartbeat.
        let run = |told: Queued| move |queued| drop(thread::Builder::new().spawn(move || told(queued)));
        let on_queued = options.on_queued.clone().map(|told| Box::new(run(told)) as Told<AcquireQueued>);
        let request = Request { specs, answer: Some(Box::new(answer)), on_queued, ..Request::default() };
        let first = core.with(|table, now| table.acquire(request, options.wait.map(nanos), now));
        let withdraw = |()| core.with(|table, _| table.refuse(first, Refusal::new("CANCELLED", "")));
        let _withdraws = scopeguard::guard((), withdraw);
        Ok(heard.await.map_err(|_| Error::Closed)??)
    }

    async fn lock(&self, spec: &LockSpec, mode: LockMode, options: &Options) -> Result<Guard, Error> {
        let spec = LockSpec { mode: mode.into(), ..spec.clone() };
        self.lock_all(vec![spec], options).await.map(|mut all| all.remove(0))
    }

    /// Counts of this client's locks.
    pub fn stats(&self) -> Stats {
        self.0.0.with(|table, now| table.stats(now))
    }

    /// Waits until this client holds nothing, waits for nothing, and brokers have confirmed what it gave back: for a
    /// shutdown that lets the work end, before `close`.
    pub async fn drained(&self) {
        let _ = self.0.0.drained.subscribe().wait_for(|drained| *drained).await;
    }

    /// Changes when the broker goes down and locks cannot move to another one: they are lost after this time.
    pub fn draining(&self) -> watch::Receiver<Option<Duration>> {
        self.0.0.with(|table, _| table.draining.subscribe())
    }

    /// Gives all locks back, and waits at most a second for the answer. Calls that wait end with `Error::Closed`.
    pub async fn close(&self) {
        self.0.0.with(|table, now| table.close(now));
        let _ = self.0.0.over.subscribe().wait_for(|over| *over).await;
    }
}

/// See `Client::mutex`.
#[derive(Clone)]
pub struct Mutex(Client, LockSpec, Options);

impl Mutex {
    pub async fn lock(&self) -> Result<Guard, Error> {
        self.0.lock(&self.1, LockMode::Exclusive, &self.2).await
    }
}

/// See `Client::rw_lock`.
#[derive(Clone)]
pub struct RwLock(Client, LockSpec, Options);

impl RwLock {
    /// Takes the lock beside other readers.
    pub async fn read(&self) -> Result<Guard, Error> {
        self.0.lock(&self.1, LockMode::Shared, &self.2).await
    }

    /// Takes the lock alone.
    pub async fn write(&self) -> Result<Guard, Error> {
        self.0.lock(&self.1, LockMode::Exclusive, &self.2).await
    }
}

/// See `Client::semaphore`.
#[derive(Clone)]
pub struct Semaphore(Client, LockSpec, Options);

impl Semaphore {
    pub async fn acquire(&self, permits: i32) -> Result<Guard, Error> {
        let spec = LockSpec { permits, ..self.1.clone() };
        self.0.lock(&spec, LockMode::Permit, &self.2).await
    }
}

/// A lock that is held. Dropping it sends the release and waits for nothing. With `min_hold`, await `release` before the
/// program ends: a process that ends sooner takes the release along, and its death leaves no block.
pub struct Guard {
    seen: Arc<Seen>,
    owner: Arc<Owner>, // the client ends with its last lock
}

impl Guard {
    fn with<R>(&self, call: impl FnOnce(&mut Table, i64, Nanos) -> R) -> R {
        self.owner.0.with(|table, now| call(table, self.seen.id.load(Relaxed), now))
    }

    /// The fencing token: it grows with each grant of this lock. Let the resource refuse smaller ones.
    pub fn token(&self) -> i64 {
        self.seen.token
    }

    /// 1; greater when the lock was taken again by re-entry.
    pub fn hold_count(&self) -> i32 {
        self.seen.hold_count
    }

    /// Whether the lock is held, by the clock, at this moment. No call to the broker.
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// As `is_held`, and why not. After a release the cause is GIVEN_BACK.
    pub fn check(&self) -> Result<(), Lost> {
        if self.owner.0.now() >= self.seen.deadline.load(Relaxed) {
            // Under the mutex, so that an ack of this moment cannot extend a lease that is reported as lost.
            self.with(|table, id, now| table.notice(id, now));
        }
        self.seen.end.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// How long the lock is held without further word from the broker. Renewals prolong it by themselves.
    pub fn valid_for(&self) -> Duration {
        let left = if self.is_held() { self.seen.deadline.load(Relaxed) - self.owner.0.now() } else { 0 };
        Duration::from_nanos(left.max(0) as u64)
    }

    /// Whether the lock is held, but renewals or heartbeats fail, or the stream broke. Finish before it is lost.
    pub fn at_risk(&self) -> bool {
        self.is_held() && self.with(|table, id, now| table.held.get(&id).is_some_and(|one| table.at_risk(one, now)))
    }

    /// Waits until the lock has ended. May be late by as long as the machine was suspended; `check` is not.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let seen = self.seen.clone();
        async move {
            let _ = seen.over.subscribe().wait_for(|over| *over).await;
            seen.end.get().expect("it has ended").clone()
        }
    }

    /// Makes an exclusive lock shared, without a gap. There is no way back.
    pub async fn downgrade(&self) -> Result<(), Error> {
        self.check()?;
        let (told, heard) = oneshot::channel();
        self.with(|table, id, _| table.downgrade(id, Box::new(|done| drop(told.send(done)))));
        Ok(heard.await.map_err(|_| Error::Closed)??)
    }

    /// Gives the lock back, and waits for the answer: `Released`, or `StillHeld` when other holds are left.
    pub async fn release(&self) -> Result<ReleaseOutcome, Error> {
        self.check()?;
        let (told, heard) = oneshot::channel::<ReleaseOutcome>();
        self.with(|table, id, now| table.release(id, Some(Box::new(|outcome| _ = told.send(outcome))), now));
        let mut end = self.seen.end.get().expect("it has ended").clone();
        match heard.await.unwrap_or(ReleaseOutcome::Unspecified) {
            _ if end.cause != GIVEN_BACK => {}
            ReleaseOutcome::Unspecified => return Err(Error::UnknownOutcome),
            ReleaseOutcome::AlreadyGone => (end.cause, end.message) = ("TAKEN", "it had ended before".into()),
            outcome => return Ok(outcome),
        }
        Err(Error::Lost(end))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.with(|table, id, now| table.release(id, None, now));
    }
}
