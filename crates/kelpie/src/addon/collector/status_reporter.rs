//! Reports a collector's results in the addon's status.

use kelpie_addon::{StatusWriter, WriteError, WriteOutcome};
use kelpie_collector::ForwardReport;
use kelpie_core::addon::{AddonComponent, CollectorReport};
use tokio::sync::watch;
use tracing::{debug, info, warn};

/// Writes the collector's reports to the addon's status. It runs beside the forwarding, so that a
/// spoke that does not answer delays nothing.
pub(super) struct StatusReporter {
    pub(super) writer: StatusWriter,
    /// The UID of the addon that the collector was deployed for. `None` means any addon.
    pub(super) uid: Option<String>,
    pub(super) component: AddonComponent,
    pub(super) rollout: Option<String>,
    /// The last rejection that was logged. The rules reject the same report at every tick.
    pub(super) logged_rejection: String,
}

impl StatusReporter {
    /// Runs until the collector has ended. Of several reports that arrive while one is being
    /// written, only the newest counts.
    pub(super) async fn run(mut self, mut reports: watch::Receiver<Option<ForwardReport>>) {
        while reports.changed().await.is_ok() {
            let report = reports.borrow_and_update().clone();
            if let Some(report) = report {
                self.write(report).await;
            }
        }
    }

    async fn write(&mut self, report: ForwardReport) {
        let reason = report.forward.reason();
        let report = CollectorReport {
            component: self.component,
            forward: report.forward,
            message: report.message,
            rollout: self.rollout.clone(),
        };
        match self.writer.report(self.uid.as_deref(), &report).await {
            Ok(WriteOutcome::Changed) => info!("reported {reason}"),
            Ok(WriteOutcome::Unchanged) => debug!("the status already has {reason}"),
            Err(rejected @ (WriteError::Refused(_) | WriteError::Replaced(_))) => {
                let rejection = rejected.to_string();
                if rejection != self.logged_rejection {
                    info!("the report {reason} was not written: {rejection}");
                    self.logged_rejection = rejection;
                }
                return;
            }
            Err(error) => {
                warn!("cannot report {reason}; retrying at the next tick: {error}");
            }
        }
        self.logged_rejection.clear();
    }
}
