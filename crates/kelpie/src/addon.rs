//! `kelpie addon`.

mod collector;
mod collectors;
mod hop;
mod hub;
mod operator;
mod part;
mod report;
mod server;
mod show;
mod spoke;
mod status;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::collector::Collector;
use self::hop::Hop;
use self::operator::Operator;
use self::report::Report;
use self::show::Show;
use self::status::Status;
use crate::exit::Outcome;

pub(crate) use self::collectors::CollectorFlags;
pub(crate) use self::hub::HubFlags;
pub(crate) use self::part::Part;
pub(crate) use self::spoke::SpokeFlags;

/// Run and read the observability addon of a managed cluster
///
/// The addon collects the metrics of a cluster, the spoke, and reports how it is to a hub. Its
/// status is one list of conditions with several writers, held to one set of rules:
/// docs/addon.md tells them.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Addon {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Operator(Box<Operator>),
    Status(Box<Status>),
    Collector(Box<Collector>),
    Hop(Box<Hop>),
    Report(Report),
    Show(Show),
}

impl Addon {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Operator(operator) => operator.run(),
            Command::Status(status) => status.run(),
            Command::Collector(collector) => collector.run(),
            Command::Hop(hop) => hop.run(),
            Command::Report(report) => report.run(),
            Command::Show(show) => show.run(),
        }
    }
}
