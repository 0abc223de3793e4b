//! A collector's reports: what it wants to say is compared with what stands there, every time.

use kelpie_core::addon::Report;

use crate::writer::{StatusWriter, WriteError, Written};

/// Speaks for one collector. To be told after every round; what could not be delivered is made again
/// at the next, and only the newest word is kept.
pub struct Reporter {
    writer: StatusWriter,
    /// The addon that this process was started for; `None`: whichever is there.
    addon: Option<String>,
    undelivered: Option<Report>,
}

impl Reporter {
    /// `addon`: the uid of the addon that the collector was deployed for.
    pub fn new(writer: StatusWriter, addon: Option<String>) -> Self {
        Self {
            writer,
            addon,
            undelivered: None,
        }
    }

    /// Has the status say this. A report that is refused is done with: the rules may accept the next
    /// one. One that could not be delivered is kept until there is a newer one.
    pub async fn report(&mut self, report: Report) -> Result<Written, WriteError> {
        self.undelivered = Some(report);
        self.deliver().await
    }

    /// Tries again to deliver what is left, if anything is.
    pub async fn deliver(&mut self) -> Result<Written, WriteError> {
        let Some(report) = &self.undelivered else {
            return Ok(Written::Unchanged);
        };
        let uid = self.addon.as_deref();
        let written = self
            .writer
            .write(uid, |status, now| status.report(report, now));
        let written = written.await;
        if !matches!(
            written,
            Err(WriteError::Call(_) | WriteError::Absent { .. })
        ) {
            self.undelivered = None;
        }
        written
    }

    /// What could not be delivered yet.
    pub fn undelivered(&self) -> Option<&Report> {
        self.undelivered.as_ref()
    }
}
