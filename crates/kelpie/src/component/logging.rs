//! What is logged, and how.

use clap::Args;

use crate::go_flags::{boolean, zap_level};
use crate::log::{self, LogFormat, LogLevel};

/// What is logged, and how.
#[derive(Args)]
pub(crate) struct PlainLoggingFlags {
    /// How a line looks
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Logging"
    )]
    log_format: LogFormat,

    /// What is worth a line
    #[arg(
        long,
        value_name = "LEVEL",
        default_value = "info",
        help_heading = "Logging"
    )]
    log_level: LogLevel,
}

impl PlainLoggingFlags {
    /// From now on.
    pub(crate) fn start(&self) {
        log::start(self.log_format, self.log_level);
    }
}

/// What is logged, and how; zap's flags are understood too.
#[derive(Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LoggingFlags {
    /// How a line looks [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// What is worth a line: error, warn, info, debug, or zap's number
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = zap_level)]
    zap_log_level: LogLevel,

    /// The same as --log-format: json, or console for text
    #[arg(long, value_name = "ENCODER")]
    zap_encoder: Option<String>,

    /// Accepted for dependency-watchdog's sake
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = boolean
    )]
    zap_devel: Option<bool>,

    /// Accepted for dependency-watchdog's sake
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,

    /// Accepted for dependency-watchdog's sake: times are RFC 3339
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,
}

impl LoggingFlags {
    /// From now on.
    pub(crate) fn start(&self) {
        let by_zap = match self.zap_encoder.as_deref() {
            Some("json") => Some(LogFormat::Json),
            _ => None,
        };
        let format = self.log_format.or(by_zap).unwrap_or(LogFormat::Text);
        log::start(format, self.zap_log_level);
    }
}
