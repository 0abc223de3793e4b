//! Ports for servers that cannot listen on port 0.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use crate::process::ServerProcess;

/// The number of times a server may lose its port to another process before that is an error.
pub(crate) const ATTEMPTS: usize = 5;

/// The first port to try. The range is below the kernel's ports for outgoing connections, so that a
/// server that restarts finds its port free.
const FIRST: u32 = 12_000;
/// The size of the range.
const COUNT: u32 = 20_000;

/// Returns a port that was free a moment ago. No port is returned twice within this process.
///
/// Another process may take the port before the server does. A caller that starts a server checks
/// [`was_lost`] and tries another port.
pub(crate) fn free() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Concurrent test processes begin at different places.
    let offset = process::id().wrapping_mul(997) % COUNT;
    (0..COUNT)
        .map(|_| NEXT.fetch_add(1, Ordering::Relaxed))
        .filter_map(|index| u16::try_from(FIRST + offset.wrapping_add(index) % COUNT).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .context("no free port")
}

/// Returns true if the server exited because another process has its port.
pub(crate) fn was_lost(server: &mut ServerProcess) -> bool {
    server.has_exited() && server.log().contains("address already in use")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_are_unique() {
        let ports: BTreeSet<u16> = (0..2_000).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 2_000);
    }
}
