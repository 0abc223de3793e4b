//! Bounded HTTP/1.1 over TLS: the one product crate that names hyper and rustls.
//!
//! Reading order, the way of a request: an [`Endpoint`] is where to go and, with a [`TlsClient`],
//! whom to trust there and as whom to appear. [`connect`] gives a [`Stream`]; [`Connection::open`]
//! puts HTTP/1.1 on it. A [`Response`] borrows its connection until it is read: no answer is ever
//! taken for another request's. Nothing here retries, pools, follows redirects, decompresses or
//! waits for ever on its own account: a deadline is the caller's, who may drop any future.
//! A [`Network`] other than TCP keeps all of it inside the process.
//! On the serving side, [`TlsListener`] is a listener for an HTTP server, and [`serve_connection`] a
//! server for one connection. [`Files`] are certificates that change under a running process.

mod connect;
mod connection;
mod crypto;
mod endpoint;
mod escape;
mod exchange;
mod fault;
mod files;
mod identity;
mod listener;
mod network;
mod read_ahead;
mod request;
mod response;
mod serve;
mod sessions;
mod stream;
mod tls;

pub use connect::{ConnectError, connect};
pub use connection::Connection;
pub use crypto::install_crypto;
pub use endpoint::{Endpoint, EndpointError};
pub use escape::escape;
pub use exchange::exchange;
pub use fault::{ClientRefusal, TlsFault};
pub use files::{FilePaths, Files, FilesError};
pub use hyper::body::Incoming;
pub use identity::{Identity, TlsError};
pub use listener::{TlsListener, TlsServer, client_certificate};
pub use network::{Dialled, Network};
pub use request::RequestError;
pub use response::Response;
pub use serve::{BrokenOff, ServedBody, serve_connection};
pub use stream::{HyperStream, Note, ServerStream, Stream};
pub use tls::{Alpn, Roots, TlsClient};
