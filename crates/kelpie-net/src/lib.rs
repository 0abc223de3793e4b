//! Bounded HTTP/1.1 over TLS. This is the only product crate that depends on hyper and rustls.
//!
//! Reading order, along a request:
//!
//! - An [`Endpoint`] is the address of a server. With a [`TlsClient`] it also holds the trusted
//!   authorities and the client certificate.
//! - [`connect`] opens a [`Stream`]. [`HttpConnection::open`] adds HTTP/1.1.
//! - A [`Response`] borrows its connection until it is read, so that no response is mistaken for
//!   that of another request.
//! - A [`Network`] other than TCP keeps all streams inside the process.
//! - An endpoint with an [address cache](Endpoint::with_address_cache) outlives an outage of DNS.
//!
//! Nothing in this crate retries, pools, follows redirects or decompresses. Apart from name
//! resolution there are no time limits either: the caller sets the deadline and may drop any
//! future.
//!
//! For servers, [`TlsListener`] is a listener for an HTTP server, and [`serve_connection`] serves
//! one connection. [`TlsFiles`] reloads certificates that change while the process runs.

mod connect;
mod connection;
mod crypto;
mod endpoint;
mod exchange;
mod identity;
mod listener;
mod local_address;
mod network;
mod percent_encoding;
mod read_ahead;
mod request;
mod resolve;
mod response;
mod server;
mod session_store;
mod stream;
mod tls;
mod tls_fault;
mod tls_files;

pub use connect::{ConnectError, connect};
pub use connection::HttpConnection;
pub use crypto::install_crypto;
pub use endpoint::{Endpoint, EndpointError};
pub use exchange::send_request;
pub use hyper::body::Incoming;
pub use identity::{Identity, TlsConfigError};
pub use listener::{
    ClientAuth, MinTlsVersion, ServerAlpn, TlsListener, TlsServer, TlsServerSettings,
    client_certificate,
};
pub use network::{DialFuture, Network, ResolveFuture};
pub use percent_encoding::percent_encode;
pub use request::RequestError;
pub use resolve::ResolveError;
pub use response::Response;
pub use server::{BodyAborted, ResponseBody, serve_connection};
pub use stream::{HyperStream, ServerStream, Stream, StreamEndRecorder};
pub use tls::{Alpn, Roots, TlsClient};
pub use tls_fault::{ClientCertRejection, TlsFault};
pub use tls_files::{TlsFilePaths, TlsFiles, TlsFilesError};
