//! Ports from the kernel, for servers that cannot be told to listen on any port.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Result;

use crate::process::Process;

/// How often a server may lose its port to somebody faster before that is an error.
pub(crate) const ATTEMPTS: usize = 5;

/// A port that was free a moment ago. Somebody else may take it before the server does, so whoever
/// starts a server on it looks at [`was_lost`] and tries another one.
pub(crate) fn free() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// True if the server ended because somebody else had its port.
pub(crate) fn was_lost(server: &mut Process) -> bool {
    server.has_ended() && server.log().contains("address already in use")
}
