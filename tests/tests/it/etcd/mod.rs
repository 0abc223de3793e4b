//! `kelpie etcd` beside real etcd members of every line.

mod harness;
mod stage;
