//! The standard gRPC health service, for balancers and for kubelets with gRPC probes.
//!
//! The service named `livez` answers for livez; `readyz`, or no name, for readyz.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use kelpie_health::{CheckGroup, Health};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{self, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// Interval between two probes of a watch.
const PERIOD: Duration = Duration::from_secs(1);

/// Maximum time between two messages of a watch. An unchanged status is repeated, so that the
/// server does not take the connection for idle and notices a client that is gone.
const REPEAT_AFTER: Duration = Duration::from_secs(10);

/// Maximum number of concurrent watches.
const MAX_WATCHES: usize = 128;

/// Maximum length of a request. It holds a name.
const MAX_REQUEST: usize = 4 * 1024;

/// The gRPC health service of a member.
#[derive(Clone)]
pub struct GrpcHealth {
    health: Health,
    watches: Arc<Semaphore>,
    /// Ends all watches.
    shutdown: CancellationToken,
}

impl GrpcHealth {
    /// Creates the service. Its watches end with `shutdown`.
    pub fn new(health: Health, shutdown: CancellationToken) -> Self {
        Self {
            health,
            watches: Arc::new(Semaphore::new(MAX_WATCHES)),
            shutdown,
        }
    }

    /// Returns the routes of the service, for a server that speaks HTTP/2.
    pub fn routes(self) -> Router {
        let service = HealthServer::new(self).max_decoding_message_size(MAX_REQUEST);
        Router::new().route_service("/grpc.health.v1.Health/{method}", service)
    }

    async fn status(&self, group: CheckGroup) -> ServingStatus {
        if self.health.probe(group).await.is_ok() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        }
    }
}

fn group(service: &str) -> Option<CheckGroup> {
    match service {
        "" => Some(CheckGroup::Readyz),
        name => CheckGroup::ALL
            .into_iter()
            .find(|group| group.as_str() == name),
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

/// One watch. It holds a permit until its client is gone.
struct WatchState {
    service: GrpcHealth,
    /// `None` if the service does not exist.
    group: Option<CheckGroup>,
    sent: Option<(ServingStatus, Instant)>,
    _permit: OwnedSemaphorePermit,
}

impl WatchState {
    /// Waits until there is something to send.
    async fn next(&mut self) -> ServingStatus {
        loop {
            let status = match self.group {
                Some(group) => self.service.status(group).await,
                None => ServingStatus::ServiceUnknown,
            };
            let is_due = self
                .sent
                .is_none_or(|(sent, at)| sent != status || at.elapsed() >= REPEAT_AFTER);
            if is_due {
                self.sent = Some((status, Instant::now()));
                return status;
            }
            sleep(PERIOD).await;
        }
    }
}

#[tonic::async_trait]
impl health_server::Health for GrpcHealth {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let Some(group) = group(&request.get_ref().service) else {
            return Err(Status::not_found("unknown service: use livez or readyz"));
        };
        Ok(Response::new(response(self.status(group).await)))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let permit = Arc::clone(&self.watches).try_acquire_owned();
        let permit = permit.map_err(|_| {
            Status::resource_exhausted(format!("more than {MAX_WATCHES} watches: use Check"))
        })?;
        let state = WatchState {
            service: self.clone(),
            group: group(&request.get_ref().service),
            sent: None,
            _permit: permit,
        };
        let statuses = unfold(state, |mut state| async move {
            Some((Ok(response(state.next().await)), state))
        });
        let ended = self.shutdown.clone().cancelled_owned();
        Ok(Response::new(statuses.take_until(ended).boxed()))
    }
}
