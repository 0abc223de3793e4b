//! Pages for clients on the same host only.

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

/// The address of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client(SocketAddr);

impl<L: Listener<Addr = SocketAddr>> Connected<IncomingStream<'_, LimitedListener<L>>> for Client {
    fn connect_info(stream: IncomingStream<'_, LimitedListener<L>>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// Limits `pages` to clients that connect from a loopback address, as `kubectl port-forward` does.
/// All others get a 403. The pages must be served by [`serve`](crate::serve()).
pub fn loopback_only(pages: Router) -> Router {
    pages.route_layer(from_fn(refuse_remote))
}

async fn refuse_remote(request: Request, next: Next) -> Response {
    let client = request.extensions().get::<ConnectInfo<Client>>();
    let is_local = client
        .is_some_and(|ConnectInfo(Client(address))| address.ip().to_canonical().is_loopback());
    if is_local {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, REFUSED).into_response()
    }
}
