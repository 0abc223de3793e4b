//! `kelpie completions`.

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Outcome;
use crate::terminal;

/// Print the completion script for a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<Outcome> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "kelpie", &mut script);
        let script = String::from_utf8(script).context("the completion script is not text")?;
        terminal::stdout(&script).context("cannot write the script")?;
        Ok(Outcome::Success)
    }
}
