//! Pages for clients on the same host only.

use std::fmt;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::serve::{IncomingStream, Listener};

use crate::server::LimitedListener;

const REFUSED: &str =
    "this page is for clients on the same host only; reach it with kubectl port-forward\n";

/// The address of a client, of TCP or of a unix socket.
pub trait ClientAddress: fmt::Debug {
    /// Returns whether the client runs on this host.
    fn is_local(&self) -> bool;
}

impl ClientAddress for SocketAddr {
    fn is_local(&self) -> bool {
        self.ip().to_canonical().is_loopback()
    }
}

impl ClientAddress for tokio::net::unix::SocketAddr {
    fn is_local(&self) -> bool {
        true
    }
}

/// The client of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    is_local: bool,
}

impl<L> Connected<IncomingStream<'_, LimitedListener<L>>> for Client
where
    L: Listener<Addr: ClientAddress>,
{
    fn connect_info(stream: IncomingStream<'_, LimitedListener<L>>) -> Self {
        Self {
            is_local: stream.remote_addr().is_local(),
        }
    }
}

/// Limits `pages` to clients that connect from a loopback address, as `kubectl port-forward` does.
/// All others get a 403. The pages must be served by [`serve`](crate::serve()).
pub fn loopback_only(pages: Router) -> Router {
    pages.route_layer(from_fn(refuse_remote))
}

async fn refuse_remote(request: Request, next: Next) -> Response {
    let client = request.extensions().get::<ConnectInfo<Client>>();
    if client.is_some_and(|client| client.0.is_local) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, REFUSED).into_response()
    }
}
