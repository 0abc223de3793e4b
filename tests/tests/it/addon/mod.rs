//! The observability addon on a pair of real API servers: a spoke and its hub.

mod collectors;
mod definition;
mod deletion;
mod example;
mod forwarding;
mod history;
mod hop;
mod hub;
mod killed;
mod operator;
mod pods;
mod quiet;
mod reports;
mod rights;
mod settling;
mod stage;
mod trouble;
mod unready;
mod whole;
