//! `kelpie addon collector` between real servers, and its reader beside theirs.

mod arrival;
mod lists;
mod pages;
mod parser;
mod refusals;
pub(crate) mod stage;
mod tls;
mod trouble;
