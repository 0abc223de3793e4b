//! Behaviour that takes a server, on loopback.
#![expect(clippy::unwrap_used, reason = "test code: a failure is a panic")]

mod seed;
