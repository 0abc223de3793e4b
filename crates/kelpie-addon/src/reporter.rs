//! Reports of a collector. Each report is compared with the stored status.

use kelpie_core::addon::CollectorReport;

use crate::status_writer::{StatusWriter, WriteError, WriteOutcome};

/// Writes the reports of one collector to the addon's status. It should get a report after every
/// tick: a report that could not be delivered is replaced by the next one.
pub struct CollectorReporter {
    writer: StatusWriter,
    /// The UID of the addon that the collector was deployed for. `None` means any addon.
    addon_uid: Option<String>,
    undelivered: Option<CollectorReport>,
}

impl CollectorReporter {
    /// Creates a reporter. `addon_uid` is the UID of the addon that the collector was deployed for;
    /// with `None`, any addon of this name is written.
    pub fn new(writer: StatusWriter, addon_uid: Option<String>) -> Self {
        Self {
            writer,
            addon_uid,
            undelivered: None,
        }
    }

    /// Writes a report. A refused report is dropped, because the rules may accept the next one. A
    /// report that could not be delivered is kept until there is a newer one.
    pub async fn report(&mut self, report: CollectorReport) -> Result<WriteOutcome, WriteError> {
        self.undelivered = Some(report);
        self.deliver().await
    }

    /// Tries again to deliver the undelivered report, if there is one.
    pub async fn deliver(&mut self) -> Result<WriteOutcome, WriteError> {
        let Some(report) = &self.undelivered else {
            return Ok(WriteOutcome::Unchanged);
        };
        let uid = self.addon_uid.as_deref();
        let written = self
            .writer
            .write(uid, |status, now| status.apply_report(report, now));
        let written = written.await;
        if !matches!(
            written,
            Err(WriteError::Call(_) | WriteError::Absent { .. })
        ) {
            self.undelivered = None;
        }
        written
    }

    /// Returns the report that could not be delivered yet.
    pub fn undelivered(&self) -> Option<&CollectorReport> {
        self.undelivered.as_ref()
    }
}
