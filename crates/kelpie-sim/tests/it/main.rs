//! The behaviour of the simulated API server and its store.
#![expect(clippy::unwrap_used, reason = "test code: a failure is a panic")]

mod objects;
mod server;
mod watches;

use kelpie_core::Time;
use kelpie_sim::{ObjectStore, SimClock};
use serde_json::{Value, json};

/// A store whose clock stands still.
fn store() -> ObjectStore {
    ObjectStore::new(SimClock::new(|| Time::from_unix(1_800_000_000, 0)), 1)
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}
