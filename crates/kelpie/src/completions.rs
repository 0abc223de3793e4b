//! `kelpie completions`.

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::{Cli, Guise};
use crate::exit::Outcome;
use crate::terminal;

/// Print the completion script for a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// The script is for the name the program was started under: shells look it up by that.
    pub(crate) fn run(&self, started_as: Guise) -> Result<Outcome> {
        let mut script = Vec::new();
        let name = started_as.name();
        clap_complete::generate(self.shell, &mut Cli::command(), name, &mut script);
        let script = String::from_utf8(script).context("the completion script is not text")?;
        // For bash, clap_complete spells the hyphen of a program in two ways, which never meet.
        let script = script.replace("dependency__subcmd__watchdog", "dependency__watchdog");
        terminal::stdout(&script).context("cannot write the script")?;
        Ok(Outcome::Success)
    }
}
