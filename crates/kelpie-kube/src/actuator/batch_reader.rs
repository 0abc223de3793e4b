//! Reads of targets that can wait: one list serves all clusters that read at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use kelpie_core::prober::fence::Observed;
use kelpie_core::prober::{ResourceRef, Target};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::{ActuatorError, Actuators, TargetScope};
use crate::client::ApiError;

/// Reads that come this close together are served together.
const GATHER: Duration = Duration::from_millis(250);
/// Up to this many reads are served one by one: for a list, the API server goes through all objects
/// of the kind.
const FEW: usize = 8;

/// Accepts reads of targets. Clones share one queue.
///
/// With a request for each, the reads of a thousand clusters would take the whole limit on routine
/// requests, and a new leader would need minutes to find the fences of its predecessor.
#[derive(Clone)]
pub struct BatchReader {
    reads: mpsc::UnboundedSender<PendingRead>,
}

struct PendingRead {
    scope: TargetScope,
    target: Target,
    reply: oneshot::Sender<Result<Observed, ActuatorError>>,
}

impl BatchReader {
    /// Creates a reader and the future that serves it, which has to be spawned once.
    pub(crate) fn new(actuators: Actuators) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (reads, queue) = mpsc::unbounded_channel();
        let serving = async move {
            let groups = batches(queue).flat_map(|batch| stream::iter(by_target(batch)));
            let serve = |(_, reads)| serve(&actuators, reads);
            groups.for_each_concurrent(None, serve).await;
        };
        (Self { reads }, serving)
    }

    /// Reads a target; `None` if the serving future has ended.
    pub async fn read(
        &self,
        scope: &TargetScope,
        target: &Target,
    ) -> Option<Result<Observed, ActuatorError>> {
        let (reply, replied) = oneshot::channel();
        let read = PendingRead {
            scope: scope.clone(),
            target: target.clone(),
            reply,
        };
        self.reads.send(read).ok()?;
        replied.await.ok()
    }
}

/// Gathers reads for a moment.
fn batches(queue: mpsc::UnboundedReceiver<PendingRead>) -> impl Stream<Item = Vec<PendingRead>> {
    stream::unfold(queue, |mut queue| async {
        let mut batch = vec![queue.recv().await?];
        sleep(GATHER).await;
        while let Ok(read) = queue.try_recv() {
            batch.push(read);
        }
        Some((batch, queue))
    })
}

fn by_target(batch: Vec<PendingRead>) -> BTreeMap<ResourceRef, Vec<PendingRead>> {
    let mut groups = BTreeMap::<_, Vec<PendingRead>>::new();
    for read in batch {
        let resource = read.target.resource.clone();
        groups.entry(resource).or_default().push(read);
    }
    groups
}

/// Serves the reads of one target.
async fn serve(actuators: &Actuators, reads: Vec<PendingRead>) {
    let Some(first) = reads.first().filter(|_| reads.len() > FEW) else {
        return serve_each(actuators, reads).await;
    };
    match actuators.list(&first.target).await {
        Ok(Some(mut found)) => {
            for read in reads {
                let object = found.remove(&read.scope.of_target(&read.target));
                let observed = object.map_or(Observed::Missing, Observed::Present);
                // The receiver may have stopped waiting.
                let _ = read.reply.send(Ok(observed));
            }
        }
        // Without the permission to list, they are read one by one.
        Ok(None) => serve_each(actuators, reads).await,
        Err(error) if error.cause().and_then(ApiError::denied).is_some() => {
            serve_each(actuators, reads).await;
        }
        Err(error) => {
            for read in reads {
                let _ = read.reply.send(Err(error.clone()));
            }
        }
    }
}

async fn serve_each(actuators: &Actuators, reads: Vec<PendingRead>) {
    for read in reads {
        if !read.reply.is_closed() {
            let observed = actuators.read(&read.scope, &read.target).await;
            let _ = read.reply.send(observed);
        }
    }
}
