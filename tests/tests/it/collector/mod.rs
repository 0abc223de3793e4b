//! The collector on real servers.

mod pages;
mod parser;
