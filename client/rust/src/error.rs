// SPDX-License-Identifier: Apache-2.0
//! Why there is no lock, or no lock any more.

use std::error::Error as Cause;

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::link::{nanos, wire};
use crate::v1;

/// The reason that is not the contract's: no broker took the request in time.
pub(crate) const UNREACHABLE: &str = "UNREACHABLE";

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no lock: `reason` says why.
    #[error("distlock: {0}")]
    Refused(Box<Refusal>),
    /// The lock ended before this program had given it back.
    #[error("distlock: {0}")]
    Lost(#[from] Lost),
    #[error("distlock: the release was not answered; the lock is free at the latest when its ttl ends")]
    UnknownOutcome,
    #[error("distlock: the client was closed")]
    Closed,
}

/// How a lock ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the lock {key:?} is lost ({cause}): {message}")]
pub struct Lost {
    pub key: String,
    /// A LostReason of the contract without its prefix; or LAPSED (its deadline passed), DISCONNECTED, RELEASED (by
    /// somebody who knew its lease_id), CLIENT_CLOSED; or GIVEN_BACK, when the program released it.
    pub cause: &'static str,
    pub message: String,
}

/// Why a request was refused.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}: {}", wire.message)]
pub struct Refusal {
    /// The name of a RefusalReason of the contract without its prefix, or UNREACHABLE.
    pub reason: String,
    /// The refusal as the contract has it: holders, retry_after, field_problems. Its own `reason` does not count.
    pub wire: v1::Refusal,
}

impl Refusal {
    pub(crate) fn new(reason: &str, message: impl Into<String>) -> Refusal {
        Refusal { reason: reason.into(), wire: v1::Refusal { message: message.into(), ..Default::default() } }
    }

    pub(crate) fn is(&self, reasons: &[&str]) -> bool {
        reasons.contains(&self.reason.as_str())
    }

    /// Others hold the lock.
    pub fn is_busy(&self) -> bool {
        self.is(&["LOCK_HELD", "WAIT_TIMEOUT", "LIMIT_MISMATCH"])
    }

    /// No broker or no store answered in time, or the store holds off after a restart: later it may be granted.
    pub fn is_unavailable(&self) -> bool {
        self.is(&[UNREACHABLE, "STORE_UNAVAILABLE", "QUORUM_NOT_REACHED", "DRAINING", "STORE_HOLD_OFF"])
    }

    /// No further attempt of this client can have another answer.
    pub fn is_permanent(&self) -> bool {
        self.is(&["INVALID_ARGUMENT", "NOT_SUPPORTED", "UNAUTHENTICATED", "PERMISSION_DENIED", "FOREIGN_KEY"])
    }
}

impl From<v1::Refusal> for Refusal {
    fn from(wire: v1::Refusal) -> Refusal {
        let name = v1::RefusalReason::try_from(wire.reason).map_or("UNKNOWN", |reason| reason.as_str_name());
        Refusal { reason: name.trim_start_matches("REFUSAL_REASON_").into(), wire }
    }
}

/// The cause that says most.
pub(crate) fn innermost(error: &dyn Cause) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        let own = match status.code() {
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::Unimplemented => "NOT_SUPPORTED",
            Code::Unauthenticated => "UNAUTHENTICATED",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "QUOTA_EXCEEDED",
            _ => UNREACHABLE, // the connection broke: gRPC itself has several codes for that
        };
        let reason = status.get_details_error_info().map_or(own.into(), |info| info.reason);
        let message = status.source().map_or_else(|| status.message().into(), innermost);
        let mut refusal = Refusal::new(&reason, format!("{message} ({:?})", status.code()));
        let pause = status.get_details_retry_info().and_then(|info| info.retry_delay);
        refusal.wire.retry_after = pause.and_then(|pause| wire(nanos(pause)));
        refusal
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        if refusal.is(&["CLIENT_CLOSED"]) { Error::Closed } else { Error::Refused(refusal.into()) }
    }
}
