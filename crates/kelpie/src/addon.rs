//! The `kelpie addon` command.

mod collector;
mod collector_deployment;
mod hop;
mod hub;
mod operator;
mod process;
mod report;
mod server;
mod show;
mod spoke;
mod status;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::collector::CollectorCommand;
use self::hop::HopCommand;
use self::operator::OperatorCommand;
use self::report::ReportCommand;
use self::show::ShowCommand;
use self::status::StatusCommand;
use crate::exit::ExitStatus;

pub(crate) use self::collector_deployment::CollectorDeploymentFlags;
pub(crate) use self::hub::HubFlags;
pub(crate) use self::process::AddonProcess;
pub(crate) use self::spoke::SpokeFlags;

/// Run and inspect the observability addon of a managed cluster
///
/// The addon collects the metrics of a cluster, the spoke, and reports its health to a hub. Its
/// status is one list of conditions with several writers, which all follow one set of rules:
/// docs/concepts/addon.md explains them.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct AddonCommand {
    #[command(subcommand)]
    command: AddonSubcommand,
}

#[derive(Subcommand)]
enum AddonSubcommand {
    Operator(Box<OperatorCommand>),
    Status(Box<StatusCommand>),
    Collector(Box<CollectorCommand>),
    Hop(Box<HopCommand>),
    Report(ReportCommand),
    Show(ShowCommand),
}

impl AddonCommand {
    pub(crate) fn run(self) -> Result<ExitStatus> {
        match self.command {
            AddonSubcommand::Operator(operator) => operator.run(),
            AddonSubcommand::Status(status) => status.run(),
            AddonSubcommand::Collector(collector) => collector.run(),
            AddonSubcommand::Hop(hop) => hop.run(),
            AddonSubcommand::Report(report) => report.run(),
            AddonSubcommand::Show(show) => show.run(),
        }
    }
}
