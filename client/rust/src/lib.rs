// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]

mod channel;
mod client;
mod core;
mod engine;
mod error;
mod link;
mod moves;
pub mod testing;
#[cfg(test)]
mod tests;

/// The messages and stubs of the contract.
#[allow(clippy::doc_lazy_continuation)]
pub mod v1 {
    tonic::include_proto!("distlock.v1");
}

pub use client::{Client, Guard, Mutex, Options, RwLock, Semaphore, Settings, Tls};
pub use engine::Stats;
pub use error::{Error, Lost, Refusal};
