//! `kelpie crd`.

use anyhow::{Context, Result};
use clap::Args;

use crate::exit::Outcome;
use crate::{terminal, yaml};

/// Print the definition of the kinds that Kelpie brings, for kubectl apply -f -
///
/// There is one: ObservabilityAddon, the observability addon of a managed cluster. The same file is
/// deploy/crds/observabilityaddons.yaml.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Crd {}

impl Crd {
    pub(crate) fn run() -> Result<Outcome> {
        let text = yaml::text(&kelpie_addon::definition());
        terminal::stdout(&text).context("cannot write the definition")?;
        Ok(Outcome::Success)
    }
}
