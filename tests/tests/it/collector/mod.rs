//! `kelpie addon collector` between real servers, and its reader beside theirs.

mod arrival;
mod lists;
mod pages;
mod parser;
mod refusals;
mod slow_hub;
pub(crate) mod stage;
mod tls;
mod trouble;
