//! Tests that parse complete files and compare the resulting values and problems.

// Test helpers may panic, and tables of cases may be long.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines
)]

mod config_maps;
mod error_report;
mod hostile_files;
mod invalid_prober;
mod invalid_weeder;
mod lint_warnings;
mod scenario_files;
mod valid_files;
