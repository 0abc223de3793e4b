//! Logging to standard error, as text or JSON.

mod writer;

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use writer::LogWriter;
pub(crate) use writer::{flush, name_lines, register_metrics};

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Human-readable text
    Text,
    /// One JSON object per line
    Json,
}

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Errors
    Error,
    /// Errors and warnings
    Warn,
    /// Also decisions and actions
    Info,
    /// Also the details behind them
    Debug,
    /// Everything
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Starts logging. Only the first call in a process has an effect.
pub(crate) fn start(format: LogFormat, level: LogLevel) {
    // Libraries log warnings and errors only: their other messages are of no interest here.
    let level = LevelFilter::from(level);
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("kelpie", level);
    let lines = fmt::layer().with_writer(LogWriter::start);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init();
}
