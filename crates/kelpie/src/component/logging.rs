//! Flags of the log.

use clap::Args;

use crate::go_flags::{go_bools, parse_zap_level};
use crate::log::{self, LogFormat, LogLevel};

#[derive(Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct PlainLoggingFlags {
    /// Format of a log line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,

    /// Lowest level that is logged
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LogLevel,
}

impl PlainLoggingFlags {
    /// Starts logging to standard error.
    pub(crate) fn start(&self) {
        log::start(self.log_format, self.log_level);
    }
}

/// Flags of the log, with zap's flags.
#[derive(Args)]
#[command(next_help_heading = "Logging", mut_args(go_bools(&["zap_devel"])))]
pub(crate) struct LoggingFlags {
    /// Format of a log line [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// Lowest level that is logged: error, warn, info, debug, or zap's number
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = parse_zap_level)]
    zap_log_level: LogLevel,

    /// The same as --log-format: json, or console for text
    #[arg(long, value_name = "ENCODER")]
    zap_encoder: Option<String>,

    /// Ignored; accepted for compatibility with dependency-watchdog
    #[arg(long, hide_default_value = true)]
    zap_devel: bool,

    /// Ignored; accepted for compatibility with dependency-watchdog
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,

    /// Ignored; accepted for compatibility with dependency-watchdog. Times are RFC 3339
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,
}

impl LoggingFlags {
    /// Starts logging to standard error.
    pub(crate) fn start(&self) {
        let by_zap = match self.zap_encoder.as_deref() {
            Some("json") => Some(LogFormat::Json),
            _ => None,
        };
        let format = self.log_format.or(by_zap).unwrap_or(LogFormat::Text);
        log::start(format, self.zap_log_level);
    }
}
