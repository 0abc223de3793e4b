//! What a collector says in the addon's status.

use kelpie_addon::{Reporter, WriteError, Written};
use kelpie_collector::Word;
use kelpie_core::addon::{Component, Report};
use tokio::sync::watch;
use tracing::{debug, info, warn};

/// Reports the collector's word. Beside the forwarding: a spoke that does not answer holds up nothing.
pub(super) struct Voice {
    reporter: Reporter,
    component: Component,
    rollout: Option<String>,
    /// The last refusal that was logged: the rules refuse the same report at every tick.
    refused: String,
}

impl Voice {
    pub(super) fn new(reporter: Reporter, component: Component, rollout: Option<String>) -> Self {
        Self {
            reporter,
            component,
            rollout,
            refused: String::new(),
        }
    }

    /// Until the collector has ended. Of several words that come while one is being delivered only
    /// the newest counts.
    pub(super) async fn run(mut self, mut words: watch::Receiver<Option<Word>>) {
        while words.changed().await.is_ok() {
            let word = words.borrow_and_update().clone();
            if let Some(word) = word {
                self.say(word).await;
            }
        }
    }

    async fn say(&mut self, word: Word) {
        let reason = word.forward.reason();
        let report = Report {
            component: self.component,
            forward: word.forward,
            message: word.message,
            rollout: self.rollout.clone(),
        };
        match self.reporter.report(report).await {
            Ok(Written::Changed) => info!("reported {reason}"),
            Ok(Written::Unchanged) => debug!("the status says {reason} already"),
            Err(refused @ (WriteError::Refused(_) | WriteError::Replaced { .. })) => {
                let refused = refused.to_string();
                if refused != self.refused {
                    info!("the report {reason} was not taken: {refused}");
                    self.refused = refused;
                }
                return;
            }
            Err(error) => {
                warn!("{reason} could not be reported, and will be at the next tick: {error}");
            }
        }
        self.refused.clear();
    }
}
