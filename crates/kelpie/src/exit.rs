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
}

/// 0: success, help, version. 1: failure. 2: a wrong command line. Errors are printed here.
pub(crate) fn code(result: Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Failure) => ExitCode::FAILURE,
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
