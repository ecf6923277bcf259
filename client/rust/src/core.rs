// SPDX-License-Identifier: Apache-2.0
//! The inside of a client: the table under one mutex, and a thread with the timer and the streams. Heartbeats need
//! nothing of the program's own runtime, which may be busy or gone.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{error::Error as Cause, future::Future, pin::Pin};

use futures_util::stream::{Stream, unfold};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tonic::{Request, Status};

use crate::channel::{Access, now, owner};
use crate::engine::Table;
use crate::error::{Error, Refusal, UNREACHABLE, innermost};
use crate::link::{Nanos, SECOND};
use crate::testing;
use crate::v1::{SessionRequest, lock_service_client::LockServiceClient, session_command::Command};

pub struct Core {
    table: Mutex<Table>,
    access: Access,
    pub owner: String,             // of locks whose caller names none
    wake: Notify,                  // has the timer look again
    more: [Notify; 2],             // wakes the writer of a link
    beaten: [Notify; 2],           // a heartbeat has left
    pub over: watch::Sender<bool>, // the thread has ended
    pub drained: watch::Sender<bool>,
    pub broker: Option<Arc<testing::Inside>>, // of a test, in the place of the thread
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs what a connection spawns, until it is ended: a call whose halves are only dropped stays open.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl hyper::rt::Executor<Task> for Tasks {
    fn execute(&self, task: Task) {
        self.0.lock().expect("no panic").spawn(task);
    }
}

impl Core {
    /// Without its thread.
    pub fn new(table: Table, access: Access, broker: Option<Arc<testing::Inside>>) -> Arc<Core> {
        let (more, beaten) = <([Notify; 2], [Notify; 2])>::default();
        let (over, drained) = (watch::Sender::new(false), watch::Sender::new(true));
        let (table, wake, owner) = (Mutex::new(table), Notify::new(), owner());
        Arc::new(Core { table, access, owner, wake, more, beaten, over, drained, broker })
    }

    pub fn start(self: Arc<Core>) -> Result<Arc<Core>, Error> {
        let failed = |error: std::io::Error| Refusal::new(UNREACHABLE, format!("cannot start a thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (inner, thread) = (self.clone(), std::thread::Builder::new().name("distlock".into()));
        thread.spawn(move || runtime.block_on(inner.run())).map_err(failed)?;
        Ok(self)
    }

    pub fn now(&self) -> Nanos {
        self.broker.as_ref().map_or_else(now, |broker| broker.now())
    }

    /// Calls a method of the table under the mutex, has the streams send what it leads to, then runs its effects.
    pub fn with<R>(&self, call: impl FnOnce(&mut Table, Nanos) -> R) -> R {
        let result = self.step(call);
        self.broker.iter().for_each(|broker| broker.pump());
        result
    }

    /// As `with`, but for the test's broker.
    pub fn step<R>(&self, call: impl FnOnce(&mut Table, Nanos) -> R) -> R {
        let mut table = self.table.lock().expect("no panic");
        let result = call(&mut table, self.now());
        table.leave_when_empty();
        table.links.iter().zip(&self.more).filter(|(link, _)| link.ready()).for_each(|(_, more)| more.notify_one());
        if table.wake() < table.armed || table.is_over() {
            table.armed = table.wake();
            self.wake.notify_one();
        }
        let is_drained = table.is_drained();
        self.drained.send_if_modified(|was| std::mem::replace(was, is_drained) != is_drained);
        let (effects, is_over) = (std::mem::take(&mut table.effects), table.is_over());
        drop(table);
        effects.into_iter().for_each(|effect| effect());
        if is_over && self.broker.is_some() {
            self.over.send_replace(true);
        }
        result
    }

    /// Calls a method of the table for a stream, unless another one has its link by now.
    fn with_link<R>(&self, l: usize, session: u64, call: impl FnOnce(&mut Table, Nanos) -> R) -> Option<R> {
        self.with(|table, now| (table.links[l].session == session).then(|| call(table, now)))
    }

    /// The thread: wakes for deadlines, heartbeats and reconnects, and has the streams that the table says.
    async fn run(self: Arc<Core>) {
        let (mut sessions, mut tasks) = ([0; 2], [Tasks::default(), Tasks::default()]);
        loop {
            let (links, pause, over) = self.with(|table, now| {
                table.tick(now);
                table.armed = table.wake();
                let links = table.links.each_ref().map(|link| (link.session, link.address.clone()));
                (links, table.armed.saturating_sub(now), table.is_over())
            });
            let changed = links.into_iter().enumerate().filter(|(l, link)| link.0 != sessions[*l]).collect::<Vec<_>>();
            for (l, (session, address)) in changed {
                tasks[l].0.lock().expect("no panic").abort_all();
                (sessions[l], tasks[l]) = (session, Tasks::default());
                if session > 0 {
                    let stream = self.clone().stream(l, session, address, tasks[l].clone());
                    tasks[l].0.lock().expect("no panic").spawn(stream);
                }
            }
            if over {
                break; // which ends all tasks
            }
            let pause = Duration::from_nanos(pause.clamp(0, 3_600 * SECOND) as u64);
            let _ = tokio::time::timeout(pause, self.wake.notified()).await;
        }
        self.over.send_replace(true);
    }

    async fn stream(self: Arc<Core>, l: usize, session: u64, address: String, tasks: Tasks) {
        let end = tokio::select! {
            end = self.clone().read(l, session, address.clone(), tasks) => end,
            () = self.clone().show(l, session, address) => Ok(()), // it has no end
        };
        self.with_link(l, session, |table, now| {
            let failure = end.err().map(Refusal::from);
            let told = failure.as_ref().map_or("OK", |failure| &failure.wire.message);
            let why = format!("the stream to the broker ended: {told}");
            let lapsed = failure.as_ref().is_some_and(|failure| failure.is(&["LEASE_LOST"]));
            table.on_broken(l, if lapsed { "LAPSED" } else { "DISCONNECTED" }, &why, failure, now);
        });
    }

    /// Reads until the call ends.
    async fn read(self: Arc<Core>, l: usize, session: u64, address: String, tasks: Tasks) -> Result<(), Status> {
        // Files may be slow to read: no heartbeat of the other session waits for them.
        let core = self.clone();
        let looked =
            spawn_blocking(move || (core.access.endpoint(&address), core.access.authorization(&address))).await;
        let (endpoint, shown) = looked.map_err(|error| failed(&error))?;
        let endpoint = endpoint.map_err(|error| failed(&error))?.executor(tasks);
        let channel = endpoint.connect().await.map_err(|error| failed(&error))?;
        let mut request = Request::new(self.clone().write(l, session));
        if !shown.is_empty()
            && let Ok(value) = shown.parse()
        {
            request.metadata_mut().insert("authorization", value);
        }
        self.with_link(l, session, |table, _| table.links[l].shown = shown);
        let mut events = LockServiceClient::new(channel).session(request).await.map_err(hung_up)?.into_inner();
        while let Some(response) = events.message().await? {
            let all = |table: &mut Table, now| response.events.into_iter().for_each(|one| table.on_event(l, one, now));
            self.with_link(l, session, all);
        }
        Ok(())
    }

    /// The messages of a stream. It has no end, which would half-close: after the goodbye the broker ends the call.
    fn write(self: Arc<Core>, l: usize, session: u64) -> impl Stream<Item = SessionRequest> {
        unfold(self, move |core| async move {
            loop {
                yield_now().await; // lets callers add what they have to say
                let Some(Some(message)) = core.with_link(l, session, |table, now| table.links[l].pack(now)) else {
                    core.more[l].notified().await;
                    continue;
                };
                if matches!(message.commands[0].command, Some(Command::Heartbeat(_))) {
                    core.beaten[l].notify_one();
                }
                return Some((message, core));
            }
        })
    }

    /// Brings a token that has changed to the session with each heartbeat, which does not wait for the file.
    async fn show(self: Arc<Core>, l: usize, session: u64, address: String) {
        loop {
            self.beaten[l].notified().await;
            let (core, address) = (self.clone(), address.clone());
            let shown = spawn_blocking(move || core.access.authorization(&address)).await.unwrap_or_default();
            self.with_link(l, session, |table, _| table.show(l, shown));
        }
    }
}

/// For a connection that ended before the broker has spoken.
fn hung_up(status: Status) -> Status {
    let Some(why) = status.source() else { return status };
    Status::unavailable(format!(
        "{}; the broker hung up before it spoke: it may want a client certificate, or TLS (the address is \
         tls://host:port then), or have as many connections of this caller as its limit max-connections-per-peer \
         allows (make one client for a process)",
        innermost(why)
    ))
}

fn failed(error: &dyn Cause) -> Status {
    Status::unavailable(innermost(error))
}
