//! `kelpie crd`.

use anyhow::{Context, Result};
use clap::Args;

use crate::exit::ExitStatus;
use crate::terminal;

/// Print Kelpie's custom resource definitions, for kubectl apply -f -
///
/// There is one: ObservabilityAddon, the observability addon of a managed cluster. The repository
/// has the same file as deploy/crds/observabilityaddons.yaml.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Crd {}

impl Crd {
    pub(crate) fn run() -> Result<ExitStatus> {
        let text = serde_saphyr::to_string(&kelpie_addon::custom_resource_definition())?;
        terminal::stdout(&text).context("cannot write the definition")?;
        Ok(ExitStatus::Success)
    }
}
