//! The destination of a tick's batches.

use crate::DecodedSample;
use crate::queue::QueuedBatch;
use crate::remote_write::RemoteWriter;
use crate::tick::Tick;

pub(crate) enum BatchSink {
    /// Writes them to the hub.
    Hub(Box<RemoteWriter>),
    /// Passes their samples to a callback. No request is sent to the hub.
    DryRun(Box<dyn Fn(&DecodedSample) + Send + Sync>),
}

impl BatchSink {
    pub(crate) async fn deliver(&self, queued: QueuedBatch, tick: &Tick) {
        match self {
            Self::Hub(hub) => hub.deliver(queued, tick).await,
            Self::DryRun(show) => {
                for sample in queued.batch.samples() {
                    show(&sample);
                }
                tick.dedup.acknowledge(&queued.batch);
                tick.stats.lock().accepted += queued.batch.len() as u64;
            }
        }
    }
}
