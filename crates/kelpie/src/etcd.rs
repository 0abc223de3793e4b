//! `kelpie etcd`.

mod check;
mod member;
mod serve;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Subcommand};

use self::check::Check;
use self::serve::Serve;
use crate::cli::Cli;
use crate::exit::Outcome;

/// Serve livez and readyz for an etcd member
///
/// It sits beside one etcd member, 3.4 or later, and answers for it:
///
///   /livez    false only on evidence that a restart of etcd is the cure
///   /readyz   false while the member should get no traffic, and says why
///   /metrics  the same as numbers
///
/// Every answer comes within its deadline, whatever etcd does. During a defragmentation livez is
/// true. Trouble with the probe's own flags, credentials or certificates never fails livez.
///
/// Endpoint, certificates and user are given as to etcdctl: by the same flags or by the same
/// environment variables (`ETCDCTL_ENDPOINTS` and so on); a flag wins.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct Etcd {
    #[command(flatten)]
    serve: Serve,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Check(Box<Check>),
}

impl Etcd {
    pub(crate) fn run(&self) -> Result<Outcome> {
        match &self.command {
            Some(Command::Check(check)) => check.run(),
            None => self.serve.run(),
        }
    }
}

/// A command line that clap took and that is wrong all the same.
fn usage(message: impl std::fmt::Display) -> anyhow::Error {
    let mut command = Cli::command();
    command.build();
    let etcd = command.find_subcommand_mut("etcd");
    let error = match etcd {
        Some(etcd) => etcd.error(ErrorKind::ValueValidation, message),
        None => command.error(ErrorKind::ValueValidation, message),
    };
    error.into()
}
