//! `kelpie completions`.

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::{Cli, Invocation};
use crate::exit::ExitStatus;
use crate::terminal;

/// Print the completion script for a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell that runs the script
    shell: Shell,
}

impl Completions {
    /// Prints the script for the name under which the program was started, because shells look up
    /// completions by that name.
    pub(crate) fn run(&self, started_as: Invocation) -> Result<ExitStatus> {
        let mut script = Vec::new();
        let name = started_as.name();
        clap_complete::generate(self.shell, &mut Cli::command(), name, &mut script);
        let script = String::from_utf8(script).context("the completion script is not text")?;
        // For bash, clap_complete encodes the hyphen in the program name in two different ways, so
        // that the generated functions do not match.
        let script = script.replace("dependency__subcmd__watchdog", "dependency__watchdog");
        terminal::stdout(&script).context("cannot write the script")?;
        Ok(ExitStatus::Success)
    }
}
