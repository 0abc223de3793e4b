//! What the project's commands share with the tests: where the real servers are.

pub mod cache;
