//! Listen addresses in the syntax of Go programs.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, Result};
use tokio::net::TcpListener;

/// A listen address: `HOST:PORT`, `:PORT` for all interfaces, or `0` to disable the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BindAddress {
    Disabled,
    AllInterfaces(u16),
    Address(String),
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected HOST:PORT, :PORT for all interfaces, or 0 to disable";
        if text == "0" {
            return Ok(Self::Disabled);
        }
        let (host, port) = text.rsplit_once(':').ok_or(expected)?;
        let port = port.parse().map_err(|_| expected)?;
        if host.is_empty() {
            return Ok(Self::AllInterfaces(port));
        }
        Ok(Self::Address(text.to_owned()))
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("0"),
            Self::AllInterfaces(port) => write!(f, ":{port}"),
            Self::Address(address) => f.write_str(address),
        }
    }
}

impl BindAddress {
    /// Binds the address. An error mentions `flag`, which sets the address.
    pub(crate) async fn listen(&self, flag: &str) -> Result<Option<TcpListener>> {
        let listener = match self {
            Self::Disabled => return Ok(None),
            Self::Address(address) => TcpListener::bind(address).await,
            Self::AllInterfaces(port) => {
                // IPv6 accepts both address families; IPv4 is for hosts without IPv6.
                let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
                let fallback = SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port));
                TcpListener::bind([all, fallback].as_slice()).await
            }
        };
        let listener = listener.with_context(|| {
            format!("cannot listen on {self}; free the address, or choose another one with {flag}")
        })?;
        Ok(Some(listener))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_addresses_are_parsed() {
        assert_eq!(":9643".parse(), Ok(BindAddress::AllInterfaces(9643)));
        assert_eq!("0".parse(), Ok(BindAddress::Disabled));
        for address in ["127.0.0.1:80", "[::1]:80", "localhost:1"] {
            assert_eq!(address.parse(), Ok(BindAddress::Address(address.into())));
        }
        for wrong in ["", "9643", "host", "host:", "host:port", ":99999", "1"] {
            assert!(wrong.parse::<BindAddress>().is_err(), "{wrong}");
        }
    }
}
