//! Looks that nobody hurries for: one list answers all clusters that look at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use kelpie_core::ResourceRef;
use kelpie_core::fence::Sight;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use super::{TargetError, Targets};

/// Looks that come so close together are answered together.
const GATHER: Duration = Duration::from_millis(250);
/// So few are answered one by one: for a list the API server goes through all objects of the kind.
const FEW: usize = 8;

/// Where looks are handed in. Clones share them.
///
/// With a request for each, the looks of a thousand clusters would take the whole limit on routine
/// requests, and a new leader would need minutes to see what its predecessor had fenced.
#[derive(Clone)]
pub struct Survey {
    looks: mpsc::UnboundedSender<Look>,
}

struct Look {
    namespace: Arc<str>,
    target: ResourceRef,
    answer: oneshot::Sender<Result<Sight, TargetError>>,
}

impl Survey {
    /// Looks by these targets, as long as the future runs. To be spawned once.
    pub(crate) fn new(targets: Targets) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (looks, handed_in) = mpsc::unbounded_channel();
        let answering = async move {
            let groups = batches(handed_in).flat_map(|batch| stream::iter(by_target(batch)));
            let answer = |(target, looks)| answer(&targets, target, looks);
            groups.for_each_concurrent(None, answer).await;
        };
        (Self { looks }, answering)
    }

    /// What a target looks like; `None`: nobody answers any more.
    pub async fn look(
        &self,
        namespace: &Arc<str>,
        target: &ResourceRef,
    ) -> Option<Result<Sight, TargetError>> {
        let (answer, answered) = oneshot::channel();
        let look = Look {
            namespace: Arc::clone(namespace),
            target: target.clone(),
            answer,
        };
        self.looks.send(look).ok()?;
        answered.await.ok()
    }
}

/// What was handed in, gathered for a moment.
fn batches(handed_in: mpsc::UnboundedReceiver<Look>) -> impl Stream<Item = Vec<Look>> {
    stream::unfold(handed_in, |mut handed_in| async {
        let mut batch = vec![handed_in.recv().await?];
        sleep(GATHER).await;
        while let Ok(look) = handed_in.try_recv() {
            batch.push(look);
        }
        Some((batch, handed_in))
    })
}

fn by_target(batch: Vec<Look>) -> BTreeMap<ResourceRef, Vec<Look>> {
    let mut groups = BTreeMap::<_, Vec<Look>>::new();
    for look in batch {
        groups.entry(look.target.clone()).or_default().push(look);
    }
    groups
}

async fn answer(targets: &Targets, target: ResourceRef, looks: Vec<Look>) {
    if looks.len() <= FEW {
        return answer_each(targets, looks).await;
    }
    match targets.list(&target).await {
        Ok(Some(mut found)) => {
            for look in looks {
                let sight = found.remove(&*look.namespace);
                let sight = sight.map_or(Sight::Missing, Sight::Present);
                // Who no longer waits has gone.
                let _ = look.answer.send(Ok(sight));
            }
        }
        // Who may only get them is served more slowly.
        Ok(None) | Err(TargetError::Denied { .. }) => answer_each(targets, looks).await,
        Err(error) => {
            for look in looks {
                let _ = look.answer.send(Err(error.clone()));
            }
        }
    }
}

async fn answer_each(targets: &Targets, looks: Vec<Look>) {
    for look in looks {
        if !look.answer.is_closed() {
            let sight = targets.read(&look.namespace, &look.target).await;
            let _ = look.answer.send(sight);
        }
    }
}
