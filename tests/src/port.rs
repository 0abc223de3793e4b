//! Ports for servers that cannot be told to listen on any port.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use crate::process::Process;

/// How often a server may lose its port to somebody faster before that is an error.
pub(crate) const ATTEMPTS: usize = 5;

/// Below what kernels give to outgoing connections: a server that is down for a moment still finds
/// its port free when it comes back.
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

/// A port that was free a moment ago and that nobody else in this process gets, however many a
/// cluster asks for before it starts. Another process may take it before the server does, so whoever
/// starts a server on it looks at [`was_lost`] and tries another one.
pub(crate) fn free() -> Result<u16> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes side by side begin at places of their own.
    let start = process::id().wrapping_mul(997) % COUNT;
    (0..COUNT)
        .map(|_| GIVEN.fetch_add(1, Ordering::Relaxed))
        .filter_map(|given| u16::try_from(FIRST + start.wrapping_add(given) % COUNT).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .context("no free port")
}

/// True if the server ended because somebody else had its port.
pub(crate) fn was_lost(server: &mut Process) -> bool {
    server.has_ended() && server.log().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nobody_is_given_a_port_twice() {
        let ports: BTreeSet<u16> = (0..2_000).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 2_000);
    }
}
