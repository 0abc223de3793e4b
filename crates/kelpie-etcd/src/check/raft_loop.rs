//! Is the raft loop stuck? See [`crate::freeze`] for what tells it from a lost quorum.

use std::sync::Arc;
use std::time::Duration;

use kelpie_health::{Check, Reason, Verdict};
use tokio::join;
use tokio::time::{Instant, timeout};

use crate::Sample;
use crate::calls::Calls;
use crate::freeze;

pub(crate) struct RaftLoop {
    pub(crate) calls: Arc<Calls>,
    pub(crate) election_timeout: Duration,
    /// How long a run waits for answers that may not come. They are noted when they do.
    pub(crate) patience: Duration,
}

impl Check for RaftLoop {
    async fn run(&self) -> Verdict {
        let Calls { fresh, .. } = *self.calls;
        let asking = async {
            join!(
                self.calls.read_index.get(fresh),
                self.calls.status.get(fresh)
            )
        };
        // Both leave their mark in the calls' memory, then or later.
        let asking = self.calls.unless_defrag(asking);
        let _ = timeout(self.patience / 2, asking).await;
        let frozen = self.calls.frozen_for(Instant::now());
        let nothing_else = Sample::default();
        if freeze::stuck(frozen, self.election_timeout, false, Some(&nothing_else)).is_none() {
            return Ok(());
        }
        // Now it matters why.
        let page = timeout(self.patience / 2, self.calls.page(fresh)).await;
        let page = page.ok().flatten();
        let defrag = self.calls.was_defragmenting();
        match freeze::stuck(frozen, self.election_timeout, defrag, page.as_ref()) {
            None => Ok(()),
            Some(frozen) => Err(Reason::of(format_args!(
                "raft loop stuck: there is a leader, but nothing was committed or applied and no \
                 linearizable read ended for {}s",
                frozen.as_secs()
            ))),
        }
    }
}
