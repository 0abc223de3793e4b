//! The fleet page: static assets and live updates.
//!
//! Everything that is shown comes from [`kelpie_core::prober::overview`]; this crate decides
//! nothing. A [`FleetSource`] renders the fleet, and one task renders it for all pages together.

mod access;
mod assets;
mod events;
mod fleet_change;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use axum::response::Redirect;
use axum::routing::get;
use kelpie_core::prober::overview::FleetState;

pub use access::local_names_only;
use events::EventHub;

/// A fleet that can be shown.
pub trait FleetSource: Send + Sync + 'static {
    /// Renders the fleet as it is now.
    fn fleet(&self) -> FleetState;

    /// Returns a number that changes with the condition of any cluster. It is cheap.
    fn changes(&self) -> u64;
}

/// Serves the page at `/ui/`, with live updates at `/ui/events`. `/` redirects to it. Must be
/// called in a runtime only when requests arrive.
pub fn routes(source: Arc<dyn FleetSource>) -> Router {
    let hub = EventHub::new(source);
    let pages = Router::new()
        .route("/", get(async || Redirect::temporary("/ui/")))
        .route("/ui", get(async || Redirect::temporary("/ui/")))
        .route("/ui/events", get(async move || hub.subscribe()));
    assets::add_to(pages).route_layer(from_fn(access::protect))
}
