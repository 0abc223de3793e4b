//! Flags as Go programs take them, for command lines that were written for one.

use std::ffi::OsString;

use crate::log::LogLevel;

/// Gives single-dash forms of long flags their second dash: `-config-file=x` is `--config-file=x`.
/// Only for commands without short flags of several letters.
pub(crate) fn with_two_dashes(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut is_over = false;
    let repair = |argument: OsString| {
        is_over |= argument == "--";
        match argument.to_str().and_then(|text| text.strip_prefix('-')) {
            Some(name) if !is_over && is_long(name) => format!("--{name}").into(),
            _ => argument,
        }
    };
    arguments.into_iter().map(repair).collect()
}

/// A name of at least two letters; no number, no second dash.
fn is_long(name: &str) -> bool {
    let word = name.split('=').next().unwrap_or_default();
    word.len() > 1 && word.starts_with(|letter: char| letter.is_ascii_alphabetic())
}

/// What Go's `strconv.ParseBool` takes.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// zap's levels, by name or as a verbosity above 0.
pub(crate) fn zap_level(text: &str) -> Result<LogLevel, String> {
    match text.to_ascii_lowercase().as_str() {
        "debug" | "1" => Ok(LogLevel::Debug),
        "info" | "0" => Ok(LogLevel::Info),
        "warn" => Ok(LogLevel::Warn),
        "error" | "dpanic" | "panic" | "fatal" => Ok(LogLevel::Error),
        verbosity if verbosity.parse::<u8>().is_ok() => Ok(LogLevel::Trace),
        _ => Err("debug, info, error, panic, or a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_dashes_become_two_until_the_flags_are_over() {
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
        let wanted: Vec<OsString> = rows.iter().map(|(_, wanted)| wanted.into()).collect();
        assert_eq!(with_two_dashes(given.collect()), wanted);
    }

    #[test]
    fn levels_are_zaps() {
        assert_eq!(zap_level("INFO"), Ok(LogLevel::Info));
        assert_eq!(zap_level("debug"), Ok(LogLevel::Debug));
        assert_eq!(zap_level("3"), Ok(LogLevel::Trace));
        assert_eq!(zap_level("panic"), Ok(LogLevel::Error));
        assert!(zap_level("loud").is_err());
        assert!(zap_level("-1").is_err());
    }

    #[test]
    fn booleans_are_gos() {
        assert_eq!(boolean("True"), Ok(true));
        assert_eq!(boolean("f"), Ok(false));
        assert!(boolean("yes").is_err());
    }
}
