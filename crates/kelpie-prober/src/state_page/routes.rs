//! The HTTP routes of the state page.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use kelpie_core::prober::overview::{FleetState, ReplicaInfo, ReplicaPart, shared_causes};
use kelpie_kube::replica::ReplicaStatus;
use kelpie_ui::FleetSource;
use serde::Deserialize;

use super::{ProberState, StatePage};

/// The state page with the replica that serves it. Clones share both.
#[derive(Clone)]
pub(crate) struct ReplicaPage {
    pub(crate) state_page: StatePage,
    pub(crate) replica: ReplicaStatus,
    pub(crate) identity: Arc<str>,
}

#[derive(Deserialize)]
struct StateQuery {
    cluster: Option<String>,
    summary: Option<String>,
}

impl ReplicaPage {
    /// Serves `/debug/state`: the raw state of all clusters, all of them in one line each with
    /// `?summary`, or one in full with `?cluster=NAME`. And the fleet page, at `/ui/`.
    pub(crate) fn routes(self) -> Router {
        let fleet = kelpie_ui::routes(Arc::new(self.clone()));
        Router::new()
            .route("/debug/state", get(respond))
            .route_layer(from_fn(kelpie_ui::local_names_only))
            .with_state(self)
            .merge(fleet)
    }

    /// Returns this replica and the leader.
    pub(crate) fn info(&self) -> ReplicaInfo {
        let state = self.replica.now();
        let part = match (state.dry_run, state.leads) {
            (true, _) => ReplicaPart::DryRun,
            (false, true) => ReplicaPart::Leader,
            (false, false) => ReplicaPart::Standby,
        };
        let leader = match part {
            ReplicaPart::Leader => Some(self.identity.to_string()),
            ReplicaPart::Standby | ReplicaPart::DryRun => self.replica.holder(),
        };
        ReplicaInfo {
            at: state.at,
            identity: self.identity.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            part,
            leader,
            shard: self.state_page.shard().map(|shard| shard.name),
        }
    }

    /// Returns all clusters, in one line each, the most urgent ones first.
    fn render_fleet(&self) -> FleetState {
        let replica = self.info();
        let (mut clusters, affected) = self.state_page.summaries();
        clusters.sort_by(|a, b| (a.condition, a.since, &a.id).cmp(&(b.condition, b.since, &b.id)));
        let affected = affected
            .iter()
            .map(|(cluster, origin)| (&**cluster, origin.as_ref()));
        let (fleet, day) = self.state_page.fleet(replica.at);
        FleetState {
            shared_causes: shared_causes(affected),
            fleet,
            day,
            clusters,
            replica,
        }
    }

    async fn cluster(&self, name: &str) -> Response {
        let detail = self.state_page.detail(name, || self.info()).await;
        let mut clusters = self.state_page.clusters(Some(name));
        let Some(view) = clusters.get_mut(name) else {
            let unprobed = Json(self.state_page.unprobed(name));
            return (StatusCode::NOT_FOUND, unprobed).into_response();
        };
        view.detail = detail;
        Json(self.state(clusters)).into_response()
    }

    fn state(
        &self,
        clusters: std::collections::BTreeMap<String, super::ClusterView>,
    ) -> ProberState {
        ProberState {
            replica: self.replica.now(),
            shard: self.state_page.shard(),
            clusters,
        }
    }
}

impl FleetSource for ReplicaPage {
    fn fleet(&self) -> FleetState {
        self.render_fleet()
    }

    fn changes(&self) -> u64 {
        self.state_page.changes()
    }
}

async fn respond(State(page): State<ReplicaPage>, Query(query): Query<StateQuery>) -> Response {
    match (query.cluster, query.summary) {
        (Some(name), _) => page.cluster(&name).await,
        (None, Some(_)) => Json(page.render_fleet()).into_response(),
        (None, None) => Json(page.state(page.state_page.clusters(None))).into_response(),
    }
}
