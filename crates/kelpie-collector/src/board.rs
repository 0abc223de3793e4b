//! What a collector shows of itself.

use std::sync::{Arc, Mutex, PoisonError};

use axum::routing::get;
use axum::{Json, Router};
use kelpie_core::Time;
use serde_json::{Value, json};

use crate::Cause;
use crate::collector::Word;
use crate::hub::Refusal;
use crate::outcome::Outcome;

/// The last tick, for `/debug/state`. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<Value>>);

impl Board {
    pub(crate) fn show(&self, outcome: &Outcome, word: Option<&Word>, now: Time, failures: u32) {
        let tally = &outcome.tally;
        let counts = |all: Vec<(&'static str, u64)>| -> Value {
            let some = all.into_iter().filter(|(_, count)| *count > 0);
            some.map(|(name, count)| (name, json!(count))).collect()
        };
        let filtered = Cause::ALL.map(|cause| (cause.as_str(), tally.filtered(cause)));
        let refused = Refusal::ALL.map(|refusal| (refusal.name(), outcome.refused_for(refusal)));
        let state = json!({
            "ended": now,
            "succeeded": outcome.result.is_ok(),
            "said": outcome.message(),
            "failures": outcome.failures(),
            "failuresInARow": failures,
            "word": word.map(|word| word.forward.reason().to_string()),
            "samples": {
                "read": tally.read,
                "filtered": counts(filtered.to_vec()),
                "unchanged": tally.unchanged,
                "accepted": outcome.accepted,
                "refused": counts(refused.to_vec()),
                "undelivered": outcome.undelivered,
            },
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = json!({ "lastTick": state });
    }

    pub(crate) fn routes(&self) -> Router {
        let board = self.clone();
        let show = move || {
            let state = board.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(Json(state.clone()))
        };
        Router::new().route("/debug/state", get(show))
    }
}
