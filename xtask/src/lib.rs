//! What the project's commands share with the tests: where the real servers are, and how a program
//! is built and run.

pub mod cache;
pub mod command;
