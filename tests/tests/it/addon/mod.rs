//! The observability addon on a pair of real API servers: a spoke and its hub.

mod collectors;
mod definition;
mod forwarding;
mod history;
mod hop;
mod hub;
mod operator;
mod reports;
mod rights;
mod settling;
mod stage;
