//! `kelpie etcd` beside real etcd members of every line.
//!
//! `-- etcd --nocapture` also prints what was measured, with etcd's own endpoints side by side;
//! `-- --ignored` runs the long ones.

mod alarms;
mod auth;
mod boot;
mod check;
mod contract;
mod cost;
mod defrag;
mod footprint;
mod harness;
mod members;
mod mistakes;
mod parity;
mod quorum;
mod stage;
mod stall;
mod stopped;
mod storm;
mod tls;
