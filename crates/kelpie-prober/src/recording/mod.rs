//! Records what probes take in and decide, so that `kelpie replay` can decide again.
//!
//! A probe hands each input of its evaluator to a queue, and a thread of its own writes the lines.
//! The probe never waits: if the queue is full, inputs are lost, which the record says. The next
//! input of the cluster is then preceded by the state of its evaluator, from which a replay goes
//! on. Every file begins with such states too, so that old files can be deleted.

mod lease_lines;
mod line;
mod queue;
mod reader;
mod record_files;
mod recorded_evaluator;
mod replay;
mod report;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kelpie_config::ProberConfig;
use kelpie_core::Time;
use prometheus_client::metrics::counter::Counter;

pub(crate) use queue::{CallRecorder, RecordQueue};
pub(crate) use recorded_evaluator::RecordedEvaluator;

pub use reader::{PlacedLine, RecordError, RecordReader};
pub use replay::{OtherSettings, replay};
pub use report::{ChangedSetting, ClusterReport, ReplayReport, WantedFence};

use line::Header;
use record_files::RecordFiles;
use writer::Writer;

/// The place and the bounds of a record.
#[derive(Clone, Debug)]
pub struct RecordSettings {
    /// The folder of the files.
    pub directory: PathBuf,
    /// The size at which a file is followed by the next one.
    pub file_bytes: u64,
    /// The number of files that are kept.
    pub files: usize,
    /// The memory that lines waiting to be written may take.
    pub queue_bytes: usize,
}

impl RecordSettings {
    /// The memory that lines waiting to be written take at most.
    pub const QUEUE_BYTES: usize = 64 << 20;
}

/// Waits for the end of a record.
#[derive(Debug)]
pub struct RecordEnd(Receiver<()>);

/// Creates the first file of a record, and starts the thread that writes it. `replica` identifies
/// the recorded process. Lines that are lost are counted in `lost`.
pub(crate) fn start(
    settings: &RecordSettings,
    config: &ProberConfig,
    replica: &str,
    started: Time,
    lost: Counter,
) -> io::Result<(RecordQueue, RecordEnd)> {
    let header = Header::new(config, replica, started)?;
    let files = RecordFiles::create(settings, header.to_line()?)?;
    let (queue, receiver) = queue::bounded(settings.queue_bytes);
    let (written, end) = channel();
    let writer = Writer::new(files, receiver, lost);
    std::thread::Builder::new()
        .name("record".to_owned())
        .spawn(move || {
            writer.run();
            // An error means that nothing waits for it.
            let _ = written.send(());
        })?;
    Ok((queue, RecordEnd(end)))
}

impl RecordEnd {
    /// Waits until every line is written, at most for this long.
    pub fn wait(&self, at_most: Duration) {
        // An error means that the thread has ended, or that the time is over.
        let _ = self.0.recv_timeout(at_most);
    }
}
