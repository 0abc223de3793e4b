//! How an API server of the simulator behaves, called directly.
#![expect(clippy::unwrap_used, reason = "test code: a failure is a panic")]

mod objects;
mod serving;
mod watches;

use kelpie_core::Time;
use kelpie_sim::{Clock, Store};
use serde_json::{Value, json};

/// A store whose clock stands still.
fn store() -> Store {
    Store::new(Clock::new(|| Time::from_unix(1_800_000_000, 0)), 1)
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}
