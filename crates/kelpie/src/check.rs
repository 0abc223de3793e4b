//! `kelpie check`: would it work, before it has to?

mod addon;
mod cluster;
mod frame;
mod prober;
mod progress;
mod question;
mod row;
mod seed;
mod weeder;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::cli::Guise;
use crate::exit::Outcome;

/// Check that a component would work here: configuration, permissions, every cluster
///
/// Nothing is written, nothing is scaled or deleted.
#[derive(Args)]
#[command(
    verbatim_doc_comment,
    disable_help_subcommand = true,
    subcommand_value_name = "COMPONENT"
)]
pub(crate) struct Check {
    #[command(subcommand)]
    component: Component,
}

#[derive(Subcommand)]
enum Component {
    Addon(Box<addon::Addon>),
    Prober(Box<prober::Prober>),
    Weeder(Box<weeder::Weeder>),
}

impl Check {
    pub(crate) fn run(self, started_as: Guise) -> Result<Outcome> {
        match self.component {
            Component::Addon(addon) => addon.run(),
            Component::Prober(prober) => prober.run(started_as),
            Component::Weeder(weeder) => weeder.run(started_as),
        }
    }
}
