//! The queue between the source and the hub, bounded by bytes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::Batch;

/// Limits the bytes of all batches that are queued or being written.
const CAPACITY_BYTES: u32 = 16 << 20;

/// Limits how long a slow hub can block the source, which holds locks while a response is open.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// The queue was full for [`SEND_TIMEOUT`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// A batch with its share of the queue's capacity, which is released on drop.
pub(crate) struct QueuedBatch {
    pub(crate) batch: Batch,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// The sending half of the queue. The queue closes when all clones are dropped.
#[derive(Clone)]
pub(crate) struct BatchSender {
    capacity: Arc<Semaphore>,
    batches: mpsc::UnboundedSender<QueuedBatch>,
}

/// The receiving half of the queue. Each batch goes to one of its clones.
#[derive(Clone)]
pub(crate) struct BatchReceiver(Arc<Mutex<mpsc::UnboundedReceiver<QueuedBatch>>>);

pub(crate) fn queue() -> (BatchSender, BatchReceiver) {
    let (batches, receiver) = mpsc::unbounded_channel();
    let sender = BatchSender {
        capacity: Arc::new(Semaphore::new(CAPACITY_BYTES as usize)),
        batches,
    };
    (sender, BatchReceiver(Arc::new(Mutex::new(receiver))))
}

impl BatchSender {
    /// Waits for capacity and queues the batch.
    pub(crate) async fn send(&self, batch: Batch) -> Result<(), QueueFull> {
        // A batch larger than the whole capacity waits until the queue is empty.
        let bytes = u32::try_from(batch.bytes()).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.capacity).acquire_many_owned(bytes.min(CAPACITY_BYTES));
        let Ok(Ok(permit)) = timeout(SEND_TIMEOUT, permit).await else {
            return Err(QueueFull);
        };
        let queued = QueuedBatch { batch, permit };
        // Without a receiver the tick is over anyway.
        self.batches.send(queued).map_err(|_| QueueFull)
    }
}

impl BatchReceiver {
    /// Returns the next batch, or `None` when the queue is closed and empty.
    pub(crate) async fn recv(&self) -> Option<QueuedBatch> {
        self.0.lock().await.recv().await
    }
}
