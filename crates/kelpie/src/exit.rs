//! Maps results to exit codes. No other module does.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Result;

use crate::terminal;

/// The result of a command that ran without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// The command succeeded.
    Success,
    /// The command found a problem and has printed it.
    Failure,
    /// The request was refused, and the reason has been printed.
    Refused,
    /// Something needs an operator, and has been printed.
    Attention,
    /// The user interrupted the demo.
    #[cfg(feature = "demo")]
    Interrupted,
}

impl ExitStatus {
    pub(crate) const fn success_if(is_ok: bool) -> Self {
        if is_ok { Self::Success } else { Self::Failure }
    }
}

/// Prints errors and returns the exit code: 0 for success, help and version, 1 for failure, 2 for
/// an invalid command line, 3 for a refused request, 4 if something needs an operator, 130 for an
/// interrupt.
pub(crate) fn code(result: Result<ExitStatus>) -> ExitCode {
    match result {
        Ok(ExitStatus::Success) => ExitCode::SUCCESS,
        Ok(ExitStatus::Failure) => ExitCode::FAILURE,
        Ok(ExitStatus::Refused) => ExitCode::from(3),
        Ok(ExitStatus::Attention) => ExitCode::from(4),
        // The exit code that shells use for a program ended by Ctrl-C.
        #[cfg(feature = "demo")]
        Ok(ExitStatus::Interrupted) => ExitCode::from(130),
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(usage) => {
                // There is nowhere to report a failure to print.
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
