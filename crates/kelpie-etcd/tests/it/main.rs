//! The checks against a member that follows a script, under paused time.

// Helpers of tests may fail loudly too.
#![allow(clippy::unwrap_used)]

mod boot;
mod calm;
mod defrag;
mod progress;
mod script;
mod trouble;
mod wire;
