//! `kelpie addon report`.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use kelpie_addon::{Reporter, StatusWriter, WriteError, Written};
use kelpie_core::addon::{self, Forward};

use super::spoke::{SpokeFlags, runtime};
use crate::exit::Outcome;
use crate::printable::printable;
use crate::terminal;

/// Report how a collector is, under the rules
///
/// For collectors that cannot do it themselves, and for scripts. A report is refused, and nothing
/// written, where the rules say that the collector has no word now: while the operator holds the
/// component at UpdateFailure, DisabledMetrics or NotSupported, or if the report belongs to an
/// older rollout.
///
/// Exits with 0 if the status says so now, with 3 if the report was refused, with 1 if it could not
/// be delivered: then it has to be made again.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Report {
    /// Which collector speaks
    #[arg(long, value_name = "COMPONENT")]
    component: Component,

    /// How forwarding went
    #[arg(long, value_name = "REASON")]
    reason: Reason,

    /// What a person should know
    #[arg(long, value_name = "TEXT", default_value = "")]
    message: String,

    /// The rollout that the collector belongs to; its pod has it in this variable
    #[arg(long, value_name = "HASH", env = "KELPIE_ADDON_ROLLOUT")]
    rollout: Option<String>,

    /// The uid of the addon that the collector was deployed for
    #[arg(long, value_name = "UID", env = "KELPIE_ADDON_UID")]
    uid: Option<String>,

    #[command(flatten)]
    spoke: SpokeFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Component {
    /// The collector of the platform's metrics
    Platform,
    /// The collector of user workloads' metrics
    Uwl,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reason {
    /// Metrics reach the hub
    #[value(name = "ForwardSuccessful")]
    Successful,
    /// They have not for a while
    #[value(name = "ForwardFailure")]
    Failure,
}

impl Report {
    pub(super) fn run(self) -> Result<Outcome> {
        runtime()?.block_on(self.report())
    }

    async fn report(self) -> Result<Outcome> {
        let spoke = self.spoke.connect("report").await?;
        let writer = StatusWriter::new(spoke.objects(), self.spoke.addon());
        let report = addon::Report {
            component: self.component.into(),
            forward: match self.reason {
                Reason::Successful => Forward::Successful,
                Reason::Failure => Forward::Failure,
            },
            message: self.message,
            rollout: self.rollout,
        };
        let (component, reason) = (report.component, report.forward.reason());
        let said = match Reporter::new(writer, self.uid).report(report).await {
            Ok(Written::Changed) => format!("the {component} is {reason} now\n"),
            Ok(Written::Unchanged) => format!("the {component} was {reason} before\n"),
            Err(refused @ (WriteError::Refused(_) | WriteError::Replaced { .. })) => {
                let said = printable(&refused.to_string());
                terminal::stderr(&format!("{said}\n")).context("cannot write the answer")?;
                return Ok(Outcome::Refused);
            }
            Err(error) => return Err(error.into()),
        };
        terminal::stdout(&said).context("cannot write the answer")?;
        Ok(Outcome::Success)
    }
}

impl From<Component> for addon::Component {
    fn from(component: Component) -> Self {
        match component {
            Component::Platform => Self::Platform,
            Component::Uwl => Self::Uwl,
        }
    }
}
