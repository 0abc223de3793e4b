//! Between the source and the hub: batches, bounded by their bytes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::Batch;

/// Bytes of batches that are on their way to the hub.
const CAPACITY: u32 = 16 << 20;

/// How long the source may be held up by a hub that is slow: an open body keeps its locks there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The queue was full for longer than the source may be held up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stuck;

/// A batch with its place in the queue, which is free again when this is dropped.
pub(crate) struct Queued {
    pub(crate) batch: Batch,
    pub(crate) place: OwnedSemaphorePermit,
}

/// Where batches go in. Clones are the same; the queue ends when all of them are gone.
#[derive(Clone)]
pub(crate) struct Inlet {
    room: Arc<Semaphore>,
    queue: mpsc::UnboundedSender<Queued>,
}

/// Where they come out, for several who take. Clones are the same.
#[derive(Clone)]
pub(crate) struct Drain(Arc<Mutex<mpsc::UnboundedReceiver<Queued>>>);

pub(crate) fn queue() -> (Inlet, Drain) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let inlet = Inlet {
        room: Arc::new(Semaphore::new(CAPACITY as usize)),
        queue: sender,
    };
    (inlet, Drain(Arc::new(Mutex::new(receiver))))
}

impl Inlet {
    /// Waits for room.
    pub(crate) async fn push(&self, batch: Batch) -> Result<(), Stuck> {
        // One that is larger than all the room has it to itself.
        let bytes = u32::try_from(batch.bytes()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes.min(CAPACITY));
        let Ok(Ok(place)) = timeout(PATIENCE, room).await else {
            return Err(Stuck);
        };
        let queued = Queued { batch, place };
        // If nobody takes any more, the tick is over anyway.
        self.queue.send(queued).map_err(|_| Stuck)
    }
}

impl Drain {
    /// The next one; `None` when there will be no more.
    pub(crate) async fn next(&self) -> Option<Queued> {
        self.0.lock().await.recv().await
    }
}
