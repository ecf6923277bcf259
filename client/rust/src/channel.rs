// SPDX-License-Identifier: Apache-2.0
//! Brokers' addresses, how to reach them, and what this process shows of itself.

use std::{env, fs, path::PathBuf, time::Duration};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::client::{Settings, Tls};
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

/// Whom a client believes, and how it proves who it is: as its settings say, else the variables of the environment.
#[derive(Default)]
pub struct Access {
    tls: Tls,
    is_given: bool, // tls, by the program
    token: String,
    token_file: Option<PathBuf>,
}

impl Access {
    pub fn new(settings: &Settings) -> Result<Access, Error> {
        let file = |name: &str| variable(name).map(PathBuf::from);
        let from_environment = || Tls {
            ca: file("DISTLOCK_TLS_CA"),
            cert: file("DISTLOCK_TLS_CERT"),
            key: file("DISTLOCK_TLS_KEY"),
            server_name: variable("DISTLOCK_TLS_SERVER_NAME"),
        };
        let (tls, is_given) = (settings.tls.clone().unwrap_or_else(from_environment), settings.tls.is_some());
        let (token, token_file) = match (&settings.token, &settings.token_file) {
            (Some(_), Some(_)) => return Err(invalid("give token or token_file, not both")),
            (Some(token), None) if !is_token(token) => {
                return Err(invalid("token: it must be one word of 1 to 16 KiB"));
            }
            (Some(token), None) => (token.clone(), None),
            (None, path) => (String::new(), path.clone().or_else(|| file("DISTLOCK_TOKEN_FILE"))),
        };
        Ok(Access { tls, is_given, token, token_file })
    }

    /// Cuts a list that is separated by commas into addresses, each once. "": DISTLOCK_SERVER, else the local socket
    /// where that exists, else loopback.
    pub fn addresses(&self, text: &str) -> Result<Vec<String>, Error> {
        let local = || if fs::exists(SOCKET).unwrap_or(false) { SOCKET } else { "127.0.0.1:7420" }.to_string();
        let text = Some(text.to_string()).filter(|text| !text.is_empty()).or_else(|| variable("DISTLOCK_SERVER"));
        let mut found = Vec::new();
        for one in text.unwrap_or_else(local).split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let one = if one.starts_with('/') { format!("unix://{one}") } else { one.to_string() };
            self.endpoint(&one)?;
            if keeps_secrets(&one)
                && let Err(why) = self.token()
            {
                return Err(invalid(format!("the token's file: {why}")));
            }
            found.extend(Some(one.clone()).filter(|one| !found.contains(one)));
        }
        if found.is_empty() {
            return Err(invalid("the address names no broker; write host:port, tls://host:port or unix:///path"));
        }
        if self.is_given && !found.iter().any(|one| one.starts_with("tls:")) {
            return Err(invalid("tls is given, and no address begins with tls:"));
        }
        Ok(found)
    }

    /// How to reach an address, with the settings of "Messages and connection" in session.md. Reads certificates anew.
    pub fn endpoint(&self, address: &str) -> Result<Endpoint, Error> {
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
            made = made.tls_config(self.tls()?).map_err(|error| invalid(format!("TLS, ca, cert, key: {error:?}")))?;
        }
        let time = Duration::from_secs;
        let made = made.connect_timeout(time(5)).http2_keep_alive_interval(time(10)).keep_alive_timeout(time(5));
        Ok(made.keep_alive_while_idle(true))
    }

    fn tls(&self) -> Result<ClientTlsConfig, Error> {
        let name = |field: &str| match self.is_given {
            true => format!("tls.{field}"),
            false => format!("DISTLOCK_TLS_{}", field.to_uppercase()),
        };
        let read = |field: &str, path: &Option<PathBuf>| {
            let wrong = |error| invalid(format!("{}: its file cannot be read: {error}", name(field)));
            path.as_ref().map(fs::read).transpose().map_err(wrong)
        };
        let config = match read("ca", &self.tls.ca)? {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        let config = match (read("cert", &self.tls.cert)?, read("key", &self.tls.key)?) {
            (Some(cert), Some(key)) => config.identity(Identity::from_pem(cert, key)),
            (None, None) => config,
            _ => {
                let (cert, key) = (name("cert"), name("key"));
                return Err(invalid(format!("{cert} and {key} belong together: give both, or none")));
            }
        };
        Ok(self.tls.server_name.iter().fold(config, |config, name| config.domain_name(name)))
    }

    /// The token, "" without one; or why its file holds none.
    fn token(&self) -> Result<String, String> {
        let Some(path) = &self.token_file else { return Ok(self.token.clone()) };
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let token = text.trim();
        let must = || format!("{} must hold the token alone, in one line of at most 16 KiB", path.display());
        is_token(token).then(|| token.into()).ok_or_else(must)
    }

    /// The token to show to this address now; "" when there is no token that can be shown there.
    pub fn authorization(&self, address: &str) -> String {
        let token = self.token().ok().filter(|token| !token.is_empty() && keeps_secrets(address));
        token.map_or(String::new(), |token| format!("Bearer {token}"))
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 16 << 10 && text.bytes().all(|c| c.is_ascii_graphic())
}

/// Whether a token may be shown there: it leaves this machine in no plain text.
fn keeps_secrets(address: &str) -> bool {
    ["tls://", "unix:", "127.", "localhost:", "[::1]:"].iter().any(|safe| address.starts_with(safe))
}

/// user@host:pid of this process, as distlockctl says it, cut to what a broker takes.
pub fn owner() -> String {
    let uid = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| format!("uid{uid}"), |user| user.name);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut named = format!("{user}@{host}:{}", std::process::id());
    while named.len() > 256 {
        named.pop();
    }
    named
}

/// This process, for a broker on the same machine that sees its end. None where the kernel has no pidfds.
pub fn claim() -> Option<ProcessClaim> {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    let found = rustix::fs::fstat(pidfd_open(getpid(), PidfdFlags::empty()).ok()?).ok()?;
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
    Some(ProcessClaim { boot_id, pidfd_inode: i64::try_from(found.st_ino).ok()? })
}
