//! The log: standard error, one line per event.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// How to log.
#[derive(Args)]
pub(crate) struct LogFlags {
    /// How a line of the log looks
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// Log this and what is more important: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Level,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

impl LogFlags {
    /// Logs from now on. Once per process.
    pub(crate) fn start(&self) -> Result<()> {
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = match self.log_format {
            LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        // What libraries say below a warning is of no use to an operator.
        let ours = Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("kelpie", self.log_level);
        let layered = tracing_subscriber::registry().with(lines.with_filter(ours));
        layered.try_init().context("cannot start the log")
    }
}
