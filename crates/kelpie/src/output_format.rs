//! The `--output` flag that several subcommands share.

use clap::ValueEnum;

/// The form in which a subcommand prints its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Human-readable text
    Text,
    /// One JSON object, for scripts
    Json,
}
