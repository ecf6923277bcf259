// SPDX-License-Identifier: Apache-2.0
//! Brokers' addresses, how to reach them, and what this process shows of itself.

use std::{env, fs, time::Duration};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::error::{Error, Refusal};
use crate::link::{Nanos, SECOND};
use crate::v1::ProcessClaim;

const SOCKET: &str = "/run/distlock/distlock.sock";

pub fn invalid(message: impl Into<String>) -> Error {
    Refusal::new("INVALID_ARGUMENT", message).into()
}

/// Now, by a clock that goes on while the machine is suspended.
pub fn now() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * SECOND + now.tv_nsec
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Cuts a list that is separated by commas into addresses, each once. "": DISTLOCK_SERVER, else the local socket where
/// that exists, else loopback.
pub fn addresses(text: &str) -> Result<Vec<String>, Error> {
    let local = || if fs::exists(SOCKET).unwrap_or(false) { SOCKET } else { "127.0.0.1:7420" }.to_string();
    let text = Some(text.to_string()).filter(|text| !text.is_empty()).or_else(|| variable("DISTLOCK_SERVER"));
    let mut found = Vec::new();
    for one in text.unwrap_or_else(local).split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let one = if one.starts_with('/') { format!("unix://{one}") } else { one.to_string() };
        endpoint(&one)?;
        if keeps_secrets(&one)
            && let Err(why) = token()
        {
            return Err(invalid(format!("DISTLOCK_TOKEN_FILE: {why}")));
        }
        found.extend(Some(one.clone()).filter(|one| !found.contains(one)));
    }
    let none = || invalid("the address names no broker; write host:port, tls://host:port or unix:///path");
    Some(found).filter(|found| !found.is_empty()).ok_or_else(none)
}

/// How to reach an address, with the settings of "Messages and connection" in session.md. Reads certificates anew.
pub fn endpoint(address: &str) -> Result<Endpoint, Error> {
    let wrong = || invalid(format!("{address:?} is no address; write host:port, tls://host:port or unix:///path"));
    let is_unix = address.starts_with("unix:");
    let target = match address.strip_prefix("tls://") {
        Some(place) => format!("https://{place}"),
        None if is_unix => address.to_string(),
        None => format!("http://{address}"),
    };
    let mut made = Endpoint::from_shared(target).map_err(|_| wrong())?;
    if !is_unix && (made.uri().port_u16().is_none_or(|port| port == 0) || made.uri().path() != "/") {
        return Err(wrong());
    }
    if made.uri().scheme_str() == Some("https") {
        made = made.tls_config(tls()?).map_err(|error| invalid(format!("DISTLOCK_TLS_CA, _CERT, _KEY: {error:?}")))?;
    }
    let seconds = Duration::from_secs;
    let made = made.connect_timeout(seconds(5)).http2_keep_alive_interval(seconds(10)).keep_alive_timeout(seconds(5));
    Ok(made.keep_alive_while_idle(true))
}

fn tls() -> Result<ClientTlsConfig, Error> {
    let wrong = |name: &str, error| invalid(format!("{name}: its file cannot be read: {error}"));
    let read = |name: &str| variable(name).map(fs::read).transpose().map_err(|error| wrong(name, error));
    let config = match read("DISTLOCK_TLS_CA")? {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    let config = match (read("DISTLOCK_TLS_CERT")?, read("DISTLOCK_TLS_KEY")?) {
        (Some(cert), Some(key)) => config.identity(Identity::from_pem(cert, key)),
        (None, None) => config,
        _ => return Err(invalid("DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY belong together: give both, or none")),
    };
    Ok(variable("DISTLOCK_TLS_SERVER_NAME").into_iter().fold(config, |config, name| config.domain_name(name)))
}

/// Whether a token may be shown there: it leaves this machine in no plain text.
fn keeps_secrets(address: &str) -> bool {
    ["tls://", "unix:", "127.", "localhost:", "[::1]:"].iter().any(|safe| address.starts_with(safe))
}

/// The token in the file that DISTLOCK_TOKEN_FILE names, "" without one; or why it holds none.
fn token() -> Result<String, String> {
    let Some(path) = variable("DISTLOCK_TOKEN_FILE") else { return Ok(String::new()) };
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let token = text.trim();
    let good = !token.is_empty() && text.len() <= 16 << 10 && token.bytes().all(|c| c.is_ascii_graphic());
    good.then(|| token.into()).ok_or_else(|| format!("{path} must hold the token alone, in one line of at most 16 KiB"))
}

/// What the file says now; "" when there is no token that can be shown to this address.
pub fn authorization(address: &str) -> String {
    let token = token().ok().filter(|token| !token.is_empty() && keeps_secrets(address));
    token.map_or(String::new(), |token| format!("Bearer {token}"))
}

/// This process, for a broker on the same machine that sees its end. None where the kernel has no pidfds.
pub fn claim() -> Option<ProcessClaim> {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    let found = rustix::fs::fstat(pidfd_open(getpid(), PidfdFlags::empty()).ok()?).ok()?;
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
    Some(ProcessClaim { boot_id, pidfd_inode: i64::try_from(found.st_ino).ok()? })
}
