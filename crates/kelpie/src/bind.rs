//! Addresses to listen on, as Go programs write them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, Result};
use tokio::net::TcpListener;

/// Where to listen: `HOST:PORT`, `:PORT` for all interfaces, `0` for nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BindAddress {
    Nowhere,
    Everywhere(u16),
    At(String),
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "HOST:PORT, :PORT for all interfaces, or 0 to serve nothing";
        if text == "0" {
            return Ok(Self::Nowhere);
        }
        let (host, port) = text.rsplit_once(':').ok_or(wanted)?;
        let port = port.parse().map_err(|_| wanted)?;
        if host.is_empty() {
            return Ok(Self::Everywhere(port));
        }
        Ok(Self::At(text.to_owned()))
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("0"),
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::At(address) => f.write_str(address),
        }
    }
}

impl BindAddress {
    /// Takes the address; `flag` is named if that fails.
    pub(crate) async fn listen(&self, flag: &str) -> Result<Option<TcpListener>> {
        let listener = match self {
            Self::Nowhere => return Ok(None),
            Self::At(address) => TcpListener::bind(address).await,
            Self::Everywhere(port) => {
                // Both families where the host has them.
                let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                let fallback = SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port));
                TcpListener::bind([all, fallback].as_slice()).await
            }
        };
        let listener = listener.with_context(|| {
            format!("cannot listen on {self}: choose another address with {flag}, or free this one")
        })?;
        Ok(Some(listener))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_go_programs_write_them() {
        assert_eq!(":9643".parse(), Ok(BindAddress::Everywhere(9643)));
        assert_eq!("0".parse(), Ok(BindAddress::Nowhere));
        for written in ["127.0.0.1:80", "[::1]:80", "localhost:1"] {
            assert_eq!(written.parse(), Ok(BindAddress::At(written.into())));
        }
        for wrong in ["", "9643", "host", "host:", "host:port", ":99999", "1"] {
            assert!(wrong.parse::<BindAddress>().is_err(), "{wrong}");
        }
    }
}
