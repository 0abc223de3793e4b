//! etcd's older `/health`, for probes that cannot move to livez and readyz yet.
//!
//! | request | fails on |
//! |---|---|
//! | GET `/health` | an alarm, no leader, a linearizable read that fails |
//! | `?serializable=true` | an alarm, and whatever fails livez |
//! | `?exclude=NOSPACE`, `?exclude=CORRUPT` | not on that alarm |
//!
//! Status, body and headers are those of etcd 3.5 and later.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use kelpie_health::{
    CheckResult, FailureReason, HealthCheck, ProbeQuery, SharedCall, method_not_allowed,
};
use serde::Serialize;
use tokio::join;
use tokio::time::timeout;

use crate::checks::linearizable_read;
use crate::checks::serializable_read::LivezRead;
use crate::shared_calls::SharedCalls;
use crate::{EtcdError, MemberStatus};

/// The handler of `/health`. Clones share its calls.
#[derive(Clone)]
pub struct HealthEndpoint {
    pub(crate) calls: Arc<SharedCalls>,
    pub(crate) livez_read: Arc<LivezRead>,
    pub(crate) linearizable_read: SharedCall<Result<(), EtcdError>>,
    /// Maximum duration of a response.
    pub(crate) timeout: Duration,
    pub(crate) allow_head: bool,
}

/// The parameters of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HealthRequest {
    serializable: bool,
    ignore_corrupt: bool,
    ignore_no_space: bool,
}

/// The body of a response, in etcd's format.
#[derive(Serialize)]
struct HealthBody<'a> {
    health: &'a str,
    reason: &'a str,
}

impl HealthRequest {
    fn parse(query: ProbeQuery<'_>) -> Self {
        let mut request = Self {
            serializable: query.value("serializable").as_deref() == Some("true"),
            ..Self::default()
        };
        for alarm in query.excludes() {
            request.ignore_corrupt |= alarm == "CORRUPT";
            request.ignore_no_space |= alarm == "NOSPACE";
        }
        request
    }

    /// Decides the result as etcd does: alarms first, then the leader, then the read.
    fn judge(self, status: Option<&MemberStatus>, read: &CheckResult) -> Result<(), String> {
        if let Some(status) = status {
            if status.is_corrupt && !self.ignore_corrupt {
                return Err("ALARM CORRUPT".to_owned());
            }
            if status.is_out_of_space && !self.ignore_no_space {
                return Err("ALARM NOSPACE".to_owned());
            }
            if status.leader == 0 && !self.serializable {
                return Err("RAFT NO LEADER".to_owned());
            }
        }
        let failed = |reason: &FailureReason| format!("RANGE ERROR:{reason}");
        read.as_ref().map_err(failed).copied()
    }
}

impl HealthEndpoint {
    /// Returns the route of `/health`.
    pub fn routes(self) -> Router {
        let route = any(
            async |State(endpoint): State<Self>, method: Method, uri: Uri| {
                if method != Method::GET && !(endpoint.allow_head && method == Method::HEAD) {
                    return method_not_allowed(endpoint.allow_head);
                }
                let request = HealthRequest::parse(ProbeQuery::new(uri.query()));
                respond(endpoint.probe(request).await)
            },
        );
        Router::new().route("/health", route).with_state(self)
    }

    async fn probe(&self, request: HealthRequest) -> Result<(), String> {
        let calls = &self.calls;
        let asking = calls.unless_defrag(calls.status.get(calls.max_age));
        let (status, read) = join!(timeout(self.timeout, asking), self.read(request));
        let status = match status {
            Ok(Some(Ok(Ok(status)))) => Some(status),
            // Alarms of a member whose store is locked are those of its last status.
            _ => calls.status.last().and_then(|(last, _)| last.ok()?.ok()),
        };
        request.judge(status.as_ref(), &read)
    }

    async fn read(&self, request: HealthRequest) -> CheckResult {
        if request.serializable {
            return self.livez_read.run().await;
        }
        let reading = self.linearizable_read.get(self.calls.max_age);
        match timeout(self.timeout, reading).await {
            Ok(read) => linearizable_read::judge(&read.map_err(FailureReason::of)?),
            Err(_) => Err(FailureReason::of(format_args!(
                "no answer within {:?}",
                self.timeout
            ))),
        }
    }
}

fn respond(result: Result<(), String>) -> Response {
    let body = |health, reason| {
        let body = HealthBody { health, reason };
        // Two strings can always be written.
        serde_json::to_string(&body).unwrap_or_default()
    };
    let text = (CONTENT_TYPE, "text/plain; charset=utf-8");
    match result {
        Ok(()) => ([text], body("true", "")).into_response(),
        Err(reason) => {
            let headers = [text, (X_CONTENT_TYPE_OPTIONS, "nosniff")];
            let body = body("false", &reason) + "\n";
            (StatusCode::SERVICE_UNAVAILABLE, headers, body).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WatchProgress;

    #[test]
    fn results_follow_the_table() {
        let healthy = MemberStatus {
            version: None,
            watch_progress: WatchProgress::Always,
            id: 1,
            leader: 1,
            commit: 1,
            applied: 1,
            is_learner: false,
            is_corrupt: false,
            is_out_of_space: false,
        };
        let corrupt = MemberStatus {
            is_corrupt: true,
            ..healthy.clone()
        };
        let full = MemberStatus {
            is_out_of_space: true,
            ..healthy.clone()
        };
        let alone = MemberStatus {
            leader: 0,
            ..healthy.clone()
        };
        let hangs = Err(FailureReason::from("no answer"));
        for (query, status, read, expected) in [
            ("", Some(&healthy), &Ok(()), ""),
            ("", None, &Ok(()), ""),
            ("", Some(&corrupt), &Ok(()), "ALARM CORRUPT"),
            ("", Some(&full), &Ok(()), "ALARM NOSPACE"),
            ("exclude=NOSPACE", Some(&full), &Ok(()), ""),
            ("exclude=nospace", Some(&full), &Ok(()), "ALARM NOSPACE"),
            ("exclude=NOSPACE", Some(&corrupt), &Ok(()), "ALARM CORRUPT"),
            (
                "exclude=NOSPACE&exclude=CORRUPT",
                Some(&corrupt),
                &Ok(()),
                "",
            ),
            ("", Some(&alone), &hangs, "RAFT NO LEADER"),
            ("serializable=true", Some(&alone), &Ok(()), ""),
            (
                "serializable=false",
                Some(&alone),
                &Ok(()),
                "RAFT NO LEADER",
            ),
            ("serializable=1", Some(&alone), &Ok(()), "RAFT NO LEADER"),
            (
                "serializable=true",
                Some(&healthy),
                &hangs,
                "RANGE ERROR:no answer",
            ),
        ] {
            let request = HealthRequest::parse(ProbeQuery::new(Some(query)));
            let reason = request.judge(status, read).err().unwrap_or_default();
            assert_eq!(reason, expected, "{query}");
        }
    }
}
