//! The subcommand `kelpie etcd`.

mod check;
mod listener;
mod member;
mod serve;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Subcommand};

use self::check::EtcdCheck;
use self::serve::EtcdServe;
use crate::cli::Cli;
use crate::exit::ExitStatus;

/// Serve livez and readyz for an etcd member
///
/// Runs next to one etcd member, 3.4 or later, and serves its health:
///
///   /livez    fails only on evidence that a restart of etcd would help
///   /readyz   fails with a reason while the member should not receive traffic
///   /metrics  the same results as metrics
///   /health   etcd's older endpoint, and the gRPC health service, for existing probes
///
/// Every response comes within its deadline, whatever etcd does. During a defragmentation livez
/// passes. Problems with the probe's own flags, credentials or certificates never fail livez.
///
/// Endpoint, certificates and user are set as for etcdctl: with the same flags or the same
/// environment variables (`ETCDCTL_ENDPOINTS` and so on). A flag takes precedence.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct Etcd {
    #[command(flatten)]
    serve: EtcdServe,

    #[command(subcommand)]
    command: Option<EtcdCommand>,
}

#[derive(Subcommand)]
enum EtcdCommand {
    Check(Box<EtcdCheck>),
}

impl Etcd {
    pub(crate) fn run(&self) -> Result<ExitStatus> {
        match &self.command {
            Some(EtcdCommand::Check(check)) => check.run(),
            None => self.serve.run(),
        }
    }
}

/// Reports an invalid command line that clap accepted, in the same format as clap.
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
