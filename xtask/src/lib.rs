//! Code that the project's commands share with the tests: the location of the real servers, and
//! building and running programs.

pub mod cache;
pub mod command;
