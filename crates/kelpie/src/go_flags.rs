//! Go's syntax for flags, for command lines written for dependency-watchdog.

use std::ffi::OsString;

use clap::{Arg, ArgAction};

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

/// Makes the flags with these ids booleans of Go's `flag` package: `--flag`, `--flag=true`,
/// `--flag=0`. For clap's `mut_args`, which keeps the order of the flags.
pub(crate) fn go_bools(ids: &[&str]) -> impl Fn(Arg) -> Arg {
    |flag| match flag.get_id().as_str() {
        id if ids.contains(&id) => flag
            .action(ArgAction::Set)
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .value_parser(parse_bool),
        _ => flag,
    }
}

/// Parses the values that Go's `strconv.ParseBool` accepts.
fn parse_bool(text: &str) -> Result<bool, String> {
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
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

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

    #[test]
    fn go_booleans_may_have_a_value() {
        for command in [
            "prober --config-file=f --fresh-connections=T --zap-devel=0",
            "weeder --config-file=f --zap-devel",
            "addon operator",
            "addon status",
            "addon hop",
        ] {
            for value in ["", "=true", "=T", "=1", "=false"] {
                let flags = format!("--dry-run{value} --enable-leader-election{value}");
                let line = format!("kelpie {command} {flags}");
                let parsed = Cli::try_parse_from(line.split(' '));
                assert!(parsed.is_ok(), "{line}");
            }
        }
    }
}
