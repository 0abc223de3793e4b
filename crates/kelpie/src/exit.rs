//! Exit codes: the one place that knows them.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Result;

use crate::terminal;

/// How a command ended that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Success,
    /// The answer is no, and has been given.
    Failure,
    /// The rules forbid it; why has been told.
    Refused,
    /// Somebody ended it before it was done.
    Interrupted,
}

/// 3: what was asked for is against the rules.
const REFUSED: u8 = 3;

/// What shells say of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

/// 0: success, help, version. 1: failure. 2: a wrong command line. 3: refused. 130: interrupted. Errors are printed here.
pub(crate) fn code(result: Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Failure) => ExitCode::FAILURE,
        Ok(Outcome::Refused) => ExitCode::from(REFUSED),
        Ok(Outcome::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(usage) => {
                // Nobody is left to tell if this fails.
                let _ = usage.print();
                u8::try_from(usage.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
            }
            Err(error) => {
                let style = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
                let _ = terminal::stderr(&format!("{style}error:{style:#} {error:#}\n"));
                ExitCode::FAILURE
            }
        },
    }
}
