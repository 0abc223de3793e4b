//! `kelpie addon collector` between real servers.

mod arrival;
mod lists;
mod pages;
mod parser;
mod refusals;
pub(crate) mod stage;
mod tls;
mod trouble;
