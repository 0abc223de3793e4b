//! The state page of a collector.

use std::sync::Arc;

use axum::routing::get;
use axum::{Json, Router};
use kelpie_core::Time;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::FilterCause;
use crate::collector::ForwardReport;
use crate::remote_write::RefusalReason;
use crate::tick_outcome::TickOutcome;

/// The last tick, served on `/debug/state`. Clones share the page.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastTickPage(Arc<Mutex<Value>>);

impl LastTickPage {
    pub(crate) fn update(
        &self,
        outcome: &TickOutcome,
        report: Option<&ForwardReport>,
        now: Time,
        failures: u32,
    ) {
        let counts = &outcome.counts;
        let nonzero = |all: Vec<(&'static str, u64)>| -> Value {
            let some = all.into_iter().filter(|(_, count)| *count > 0);
            some.map(|(name, count)| (name, json!(count))).collect()
        };
        let filtered = FilterCause::ALL.map(|cause| (cause.as_str(), counts.filtered(cause)));
        let refused =
            RefusalReason::ALL.map(|reason| (reason.name(), outcome.refused[reason as usize]));
        let state = json!({
            "ended": now,
            "succeeded": outcome.result.is_ok(),
            "message": outcome.message(),
            "failures": outcome.failures,
            "consecutiveFailures": failures,
            "reported": report.map(|report| report.forward.reason().to_string()),
            "samples": {
                "read": counts.read,
                "filtered": nonzero(filtered.to_vec()),
                "unchanged": counts.unchanged,
                "accepted": outcome.accepted,
                "refused": nonzero(refused.to_vec()),
                "undelivered": outcome.undelivered,
            },
        });
        *self.0.lock() = json!({ "lastTick": state });
    }

    pub(crate) fn routes(&self) -> Router {
        let page = self.clone();
        let show = move || {
            let state = page.0.lock();
            std::future::ready(Json(state.clone()))
        };
        Router::new().route("/debug/state", get(show))
    }
}
