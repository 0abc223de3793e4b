//! Not ready during a defragmentation: reads and writes wait until it ends.

use std::sync::Arc;

use kelpie_health::{Check, Reason, Verdict};
use tokio::time::timeout;

use crate::calls::Calls;
use crate::defrag::Defrag;

pub(crate) struct Defragmentation(pub(crate) Arc<Calls>);

impl Check for Defragmentation {
    async fn run(&self) -> Verdict {
        // Each look is for itself: what ran a moment ago does not matter here.
        let page = self.0.page(self.0.fresh).await;
        let told = page.as_ref().and_then(|page| page.defrag_inflight);
        let ping = if told.is_none() {
            // The metrics may have taken most of the time.
            let asked = timeout(self.0.fresh / 5, self.0.ping.get(self.0.fresh));
            asked.await.ok().and_then(Result::ok)
        } else {
            None
        };
        self.0.note_listener(ping.as_ref());
        judge(Defrag::seen(page.as_ref(), ping.as_ref()))
    }
}

/// What cannot be known fails nothing; the log and the gauge of misconfiguration tell.
fn judge(defrag: Defrag) -> Verdict {
    match defrag {
        Defrag::Running => Err(Reason::from("a defragmentation is running")),
        Defrag::Idle | Defrag::Unknown => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_one_fails() {
        assert!(judge(Defrag::Running).is_err());
        assert!(judge(Defrag::Idle).is_ok());
        assert!(judge(Defrag::Unknown).is_ok());
    }
}
