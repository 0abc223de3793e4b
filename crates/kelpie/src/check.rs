//! `kelpie check`: checks that a component can run, before it is needed.

mod addon;
mod api_server;
pub(crate) mod cluster;
mod guard;
mod prober;
pub(crate) mod runner;
pub(crate) mod seed;
mod shards;
pub(crate) mod table;
mod weeder;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cli::Invocation;
use crate::exit::ExitStatus;

/// Check that a component can run here: its configuration, permissions and clusters
///
/// The checks only read: nothing is written, scaled or deleted.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    disable_help_subcommand = true,
    subcommand_value_name = "COMPONENT"
)]
pub(crate) struct Check {
    #[command(subcommand)]
    component: CheckedComponent,
}

#[derive(Subcommand)]
enum CheckedComponent {
    Addon(Box<addon::CheckAddon>),
    Prober(Box<prober::CheckProber>),
    Weeder(Box<weeder::CheckWeeder>),
}

impl Check {
    pub(crate) fn run(self, started_as: Invocation) -> Result<ExitStatus> {
        match self.component {
            CheckedComponent::Addon(addon) => addon.run(),
            CheckedComponent::Prober(prober) => prober.run(started_as),
            CheckedComponent::Weeder(weeder) => weeder.run(started_as),
        }
    }
}
