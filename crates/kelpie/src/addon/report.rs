//! The `kelpie addon report` command.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use kelpie_addon::{StatusWriter, WriteError, WriteOutcome};
use kelpie_core::addon::{AddonComponent, CollectorReport, ForwardOutcome};

use super::spoke::SpokeFlags;
use crate::exit::ExitStatus;
use crate::printable::printable;
use crate::{component, terminal};

/// Report the state of a collector
///
/// For scripts, and for collectors that cannot report themselves. A report is refused, and nothing
/// is written, while the operator holds the component at UpdateFailure, DisabledMetrics or
/// NotSupported, or if the report belongs to another rollout.
///
/// Exits with 0 if the status has the report now, with 3 if the report was refused, and with 1 if
/// it could not be delivered and should be repeated.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(super) struct ReportCommand {
    /// Collector to report for
    #[arg(long, value_name = "COMPONENT")]
    component: ComponentArg,

    /// State of forwarding
    #[arg(long, value_name = "REASON")]
    reason: ReasonArg,

    /// Message of the condition
    #[arg(long, value_name = "TEXT", default_value = "")]
    message: String,

    /// Rollout that the collector belongs to; the operator sets the variable in its pod
    #[arg(long, value_name = "HASH", env = "KELPIE_ADDON_ROLLOUT")]
    rollout: Option<String>,

    /// UID of the addon that the collector was deployed for
    #[arg(long, value_name = "UID", env = "KELPIE_ADDON_UID")]
    uid: Option<String>,

    #[command(flatten)]
    spoke: SpokeFlags,
}

/// A component as given on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ComponentArg {
    /// The collector of the platform's metrics
    Platform,
    /// The collector of user workloads' metrics
    Uwl,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReasonArg {
    /// Metrics reach the hub
    #[value(name = "ForwardSuccessful")]
    Successful,
    /// Metrics have not reached the hub for a while
    #[value(name = "ForwardFailure")]
    Failure,
}

impl ReportCommand {
    pub(super) fn run(self) -> Result<ExitStatus> {
        component::run(self.report())
    }

    async fn report(self) -> Result<ExitStatus> {
        let spoke = self.spoke.connect("report").await?;
        let writer = StatusWriter::new(spoke.objects(), self.spoke.addon());
        let report = CollectorReport {
            component: self.component.into(),
            forward: match self.reason {
                ReasonArg::Successful => ForwardOutcome::Successful,
                ReasonArg::Failure => ForwardOutcome::Failure,
            },
            message: self.message,
            rollout: self.rollout,
        };
        let (component, reason) = (report.component, report.forward.reason());
        let text = match writer.report(self.uid.as_deref(), &report).await {
            Ok(WriteOutcome::Changed) => format!("the {component} is now {reason}\n"),
            Ok(WriteOutcome::Unchanged) => format!("the {component} was already {reason}\n"),
            Err(refused @ (WriteError::Refused(_) | WriteError::Replaced(_))) => {
                let text = printable(&refused.to_string());
                terminal::stderr(&format!("{text}\n")).context("cannot write the result")?;
                return Ok(ExitStatus::Refused);
            }
            Err(error) => return Err(error.into()),
        };
        terminal::stdout(&text).context("cannot write the result")?;
        Ok(ExitStatus::Success)
    }
}

impl From<ComponentArg> for AddonComponent {
    fn from(component: ComponentArg) -> Self {
        match component {
            ComponentArg::Platform => Self::Platform,
            ComponentArg::Uwl => Self::Uwl,
        }
    }
}
