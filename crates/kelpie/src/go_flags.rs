//! Go's syntax for flags, for command lines written for dependency-watchdog.

use std::ffi::OsString;

use crate::log::LogLevel;

/// Adds the second dash to long flags: `-config-file=x` becomes `--config-file=x`. Suitable only
/// for commands whose short flags are never combined.
pub(crate) fn normalize_dashes(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut flags_ended = false;
    let normalize = |argument: OsString| {
        flags_ended |= argument == "--";
        match argument.to_str().and_then(|text| text.strip_prefix('-')) {
            Some(name) if !flags_ended && is_long(name) => format!("--{name}").into(),
            _ => argument,
        }
    };
    arguments.into_iter().map(normalize).collect()
}

/// Returns true for a name of at least two characters that starts with a letter.
fn is_long(name: &str) -> bool {
    let word = name.split('=').next().unwrap_or_default();
    word.len() > 1 && word.starts_with(|letter: char| letter.is_ascii_alphabetic())
}

/// Parses the values that Go's `strconv.ParseBool` accepts.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// Parses a log level of zap: a name, or a verbosity above 0.
pub(crate) fn parse_zap_level(text: &str) -> Result<LogLevel, String> {
    match text.to_ascii_lowercase().as_str() {
        "debug" | "1" => Ok(LogLevel::Debug),
        "info" | "0" => Ok(LogLevel::Info),
        "warn" => Ok(LogLevel::Warn),
        "error" | "dpanic" | "panic" | "fatal" => Ok(LogLevel::Error),
        verbosity if verbosity.parse::<u8>().is_ok() => Ok(LogLevel::Trace),
        _ => Err("expected debug, info, error, panic, or a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_dashes_are_doubled() {
        let rows = [
            ("-config-file=x", "--config-file=x"),
            ("-kubeconfig", "--kubeconfig"),
            ("--kubeconfig", "--kubeconfig"),
            ("-h", "-h"),
            ("-", "-"),
            ("-5", "-5"),
            ("-a=b", "-a=b"),
            ("prober", "prober"),
            ("--", "--"),
            ("-name", "-name"),
        ];
        let given = rows.iter().map(|(given, _)| OsString::from(given));
        let expected: Vec<OsString> = rows.iter().map(|(_, expected)| expected.into()).collect();
        assert_eq!(normalize_dashes(given.collect()), expected);
    }

    #[test]
    fn zap_levels_are_parsed() {
        assert_eq!(parse_zap_level("INFO"), Ok(LogLevel::Info));
        assert_eq!(parse_zap_level("debug"), Ok(LogLevel::Debug));
        assert_eq!(parse_zap_level("3"), Ok(LogLevel::Trace));
        assert_eq!(parse_zap_level("panic"), Ok(LogLevel::Error));
        assert!(parse_zap_level("loud").is_err());
        assert!(parse_zap_level("-1").is_err());
    }

    #[test]
    fn go_booleans_are_parsed() {
        assert_eq!(parse_bool("True"), Ok(true));
        assert_eq!(parse_bool("f"), Ok(false));
        assert!(parse_bool("yes").is_err());
    }
}
