//! The client for a trusted API server: the seed, or the hub and the spoke of the addon.
//!
//! [`ClusterClient`] has two clients. The *routine* client is rate limited; watches, reads and
//! Events go through it. The *fencing* client has no limit, so that fencing ([`Actuators`]), the
//! deletion of pods after a recovery and leader election never queue behind routine requests.
//!
//! Watches deliver [`WatchEvent`]s with only the fields that are used of an object. Errors are
//! sorted by what can be done about them.

mod body_timeout;
mod connect;
mod error;
mod in_process;
mod metrics;
mod rate_limit;
mod response_counter;
mod suppress_logs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kelpie_net::{Endpoint, Network};
use kube::Client;
use thiserror::Error;
use tokio::time::timeout;

pub use error::ApiError;
pub use metrics::ClientMetrics;

pub(crate) use error::{root_cause, shortened};
pub(crate) use suppress_logs::{suppress_logs, suppress_logs_of};

use crate::actuator::{Actuators, BatchReader};
use crate::events::EventRecorder;
use crate::objects::ObjectClient;
use crate::rbac::{self, PolicyRule};
use crate::resources::{PodFacts, SliceFacts, endpoint_slice};
use crate::system_clock::SystemClock;
use crate::watch::{self, OptionalEvent, Priority, Selection, WatchEvent, WatchedResource};
use connect::Clients;
use in_process::InProcess;
use response_counter::ResponseCounter;

/// The role of a cluster for which the caller gives none.
const SEED: &str = "seed";
/// The timeout for the version, for access reviews and for lists that are read once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of a [`ClusterClient`].
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The path of the kubeconfig. `None`: `$KUBECONFIG`, else the pod's service account, else
    /// `~/.kube/config`. It is trusted: exec plugins are run and files are read.
    pub kubeconfig: Option<PathBuf>,
    /// The limit on routine requests per second. As in client-go, 0 means 5 and a negative value
    /// means no limit.
    pub qps: f32,
    /// The number of routine requests that may be sent at once. As in client-go, 0 means 10.
    pub burst: u32,
    /// The value of the `User-Agent` header.
    pub user_agent: String,
}

/// An error of a [`ClusterClient`]. `role` is the cluster's, such as `seed`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The kubeconfig is missing or invalid.
    #[error(
        "cannot use the kubeconfig for the {role} from {origin}: {reason}; set another with \
         --kubeconfig"
    )]
    #[expect(missing_docs, reason = "the message shows each field")]
    Kubeconfig {
        role: &'static str,
        origin: String,
        reason: String,
    },
    /// No client can be built with these settings.
    #[error("cannot create a client for the {role}: {reason}")]
    #[expect(missing_docs, reason = "the message shows each field")]
    Setup { role: &'static str, reason: String },
    /// A request failed.
    #[error("cannot {verb} the {role}'s API server at {server}: {cause}; {}", cause.remedy())]
    #[expect(missing_docs, reason = "the message shows each field")]
    Request {
        role: &'static str,
        server: Arc<str>,
        verb: &'static str,
        cause: ApiError,
    },
}

/// A client for a trusted API server. Clones share their connections and limits.
#[derive(Clone)]
pub struct ClusterClient {
    routine: Client,
    fencing: Client,
    overtaking: Client,
    actuators: Actuators,
    counter: ResponseCounter,
    network: Network,
    clock: SystemClock,
    role: &'static str,
    server: Arc<str>,
}

impl ClusterClient {
    /// Creates a client for the seed. It sends no request yet, so an API server that is down is not
    /// an error.
    pub async fn connect(options: &ClientOptions) -> Result<Self, ClientError> {
        Self::connect_as(SEED, options).await
    }

    /// Creates a client for another cluster. Messages call it by its `role`, such as `hub`.
    pub async fn connect_as(
        role: &'static str,
        options: &ClientOptions,
    ) -> Result<Self, ClientError> {
        let counter = ResponseCounter::default();
        let (clients, server) = connect::connect(role, options, &counter).await?;
        let environment = (Network::default(), SystemClock::default());
        Ok(Self::new((role, server), clients, counter, environment))
    }

    /// Creates a client for a seed that is reached through `network` and has its own `clock`, such
    /// as a simulated one. `server` is its URL, `name` is both the user agent and the bearer token.
    pub fn in_process(
        network: &Network,
        clock: SystemClock,
        server: &str,
        name: &str,
    ) -> Result<Self, ClientError> {
        let role = SEED;
        let setup = |reason: String| ClientError::Setup { role, reason };
        let endpoint = Endpoint::new(server, None).map_err(|error| setup(error.to_string()))?;
        let in_process = InProcess::new(endpoint.with_network(network), name);
        let in_process = in_process.map_err(|error| setup(error.to_string()))?;
        let counter = ResponseCounter::default();
        let clients = connect::in_process(&in_process, &counter);
        let environment = (network.clone(), clock);
        Ok(Self::new(
            (role, server.into()),
            clients,
            counter,
            environment,
        ))
    }

    fn new(
        (role, server): (&'static str, Arc<str>),
        clients: Clients,
        counter: ResponseCounter,
        (network, clock): (Network, SystemClock),
    ) -> Self {
        let Clients {
            routine,
            fencing,
            overtaking,
        } = clients;
        Self {
            routine,
            actuators: Actuators::new(fencing.clone(), clock.clone()),
            fencing,
            overtaking,
            counter,
            network,
            clock,
            role,
            server,
        }
    }

    /// Returns the network over which the clusters of this seed are reached.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the clock of this cluster: the host's, or a simulated one.
    pub fn system_clock(&self) -> &SystemClock {
        &self.clock
    }

    /// Returns the cluster's name in messages, such as `hub`.
    pub fn role(&self) -> &'static str {
        self.role
    }

    /// Returns where the API server is, for messages: its URL, and the kubeconfig that names it.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Watches a resource with the routine client. The stream never ends.
    pub fn watch<T: WatchedResource>(
        &self,
        selection: Selection<'_>,
    ) -> impl Stream<Item = WatchEvent<T>> + Send + use<T> {
        self.naming_server(watch::watch(&self.routine, selection, watch::WATCH_SECONDS))
    }

    /// Adds the server to the errors of a watch.
    fn naming_server<T, S: Stream<Item = WatchEvent<T>> + Send>(
        &self,
        events: S,
    ) -> impl Stream<Item = WatchEvent<T>> + Send + use<T, S> {
        let server = Arc::clone(&self.server);
        events.map(move |event| match event {
            WatchEvent::Error(error) => WatchEvent::Error(error.at(&server)),
            event => event,
        })
    }

    /// Lists a resource once with the fencing client. The list is at least as new as the call. It
    /// must be small: it is not read in pages.
    pub fn list_now<T: WatchedResource>(
        &self,
        selection: Selection<'_>,
    ) -> impl Future<Output = Result<Vec<T>, ApiError>> + Send + use<T> {
        watch::list_now(&self.fencing, selection, REQUEST_TIMEOUT)
    }

    /// Watches a resource whose kind may not exist, with the routine client. The stream never ends.
    pub fn watch_optional<T: WatchedResource>(
        &self,
        selection: Selection<'_>,
    ) -> impl Stream<Item = OptionalEvent<T>> + Send + use<T> {
        watch::optional(self.watch(selection))
    }

    /// Returns a client for objects of any kind, which uses the routine client.
    pub fn objects(&self) -> ObjectClient {
        ObjectClient::new(self.routine.clone(), self.clock.clone(), self.role)
    }

    /// Watches the EndpointSlices of these services, in all namespaces or in one. The stream never
    /// ends. It uses the fencing client and notices a dead connection within half a minute.
    pub fn endpoint_slices(
        &self,
        services: &[&str],
        namespace: Option<&str>,
    ) -> impl Stream<Item = WatchEvent<SliceFacts>> + Send + use<> {
        let labels = endpoint_slice::labels(services);
        let selection = Selection {
            namespace,
            labels: Some(&labels),
            ..Selection::default()
        };
        self.naming_server(watch::watch(
            &self.fencing,
            selection,
            watch::SHORT_WATCH_SECONDS,
        ))
    }

    /// Watches the pods of a namespace, or those that a label selector matches. The first list is
    /// at least as new as the call. The stream never ends.
    pub fn pods(
        &self,
        namespace: &str,
        labels: Option<&str>,
        priority: Priority,
    ) -> impl Stream<Item = WatchEvent<PodFacts>> + Send + use<> {
        let selection = Selection {
            namespace: Some(namespace),
            labels,
            ..Selection::default()
        };
        let (client, seconds) = match priority {
            Priority::Urgent => (&self.fencing, watch::SHORT_WATCH_SECONDS),
            Priority::Routine => (&self.routine, watch::WATCH_SECONDS),
        };
        self.naming_server(watch::watch(client, selection, seconds))
    }

    /// Returns the actuators for fencing. Their calls do not queue behind routine requests.
    pub fn actuators(&self) -> &Actuators {
        &self.actuators
    }

    /// Returns the actuators for a second try of a fencing call, over connections of their own:
    /// those of the first try may be half open.
    pub fn overtaking_actuators(&self) -> Actuators {
        self.actuators.with_client(self.overtaking.clone())
    }

    /// Returns the actuators behind the limit on routine requests. Waiting in that queue says
    /// nothing about the API server, so only its silence ends a call.
    pub fn routine_actuators(&self) -> Actuators {
        let routine = self.actuators.with_client(self.routine.clone());
        routine.with_limit(Duration::MAX)
    }

    /// Returns a reader for targets that can wait, and the future that serves it, which has to be
    /// spawned once.
    pub fn batch_reader(&self) -> (BatchReader, impl Future<Output = ()> + Send + use<>) {
        BatchReader::new(self.routine_actuators())
    }

    /// Returns a recorder for Events of `component` and `instance`, which uses the routine client.
    /// [`EventRecorder::run`] sends them.
    pub fn events(&self, component: &str, instance: &str) -> EventRecorder {
        let client = self.routine.clone();
        EventRecorder::new(client, self.clock.clone(), component, instance)
    }

    /// Returns a recorder that uses the fencing client, for Events that a caller waits for.
    pub fn priority_events(&self, component: &str, instance: &str) -> EventRecorder {
        let client = self.fencing.clone();
        EventRecorder::new(client, self.clock.clone(), component, instance)
    }

    /// Reviews the verbs of a rule one by one, and returns those that this client may not use.
    pub async fn denied(&self, rule: &PolicyRule) -> Result<Vec<PolicyRule>, ClientError> {
        let mut denied = Vec::new();
        for rule in rule.for_each_verb() {
            let review = rbac::review_access(&self.routine, &rule);
            if !self.request("review permissions on", review).await? {
                denied.push(rule);
            }
        }
        Ok(denied)
    }

    /// Returns the API server's version, such as `v1.36.4`.
    pub async fn version(&self) -> Result<String, ClientError> {
        let verb = "read the version of";
        let version = self.routine.apiserver_version();
        let version = self.request(verb, version).await?;
        Ok(version.git_version)
    }

    /// Makes a small request with the fencing client, to measure the API server.
    pub async fn ping(&self) -> Result<(), ApiError> {
        let version = call_within(REQUEST_TIMEOUT, self.fencing.apiserver_version()).await;
        version.map(|_| ())
    }

    /// Returns the number of responses so far by HTTP status. Status 0 counts requests without one.
    pub fn response_counts(&self) -> BTreeMap<u16, u64> {
        self.counter.read()
    }

    /// Returns the fencing client, for requests that must not wait.
    pub(crate) fn urgent(&self) -> Client {
        self.fencing.clone()
    }

    async fn request<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ClientError> {
        let response = call_within(REQUEST_TIMEOUT, call).await;
        response.map_err(|cause| ClientError::Request {
            role: self.role,
            server: Arc::clone(&self.server),
            verb,
            cause,
        })
    }
}

/// Makes a call with a time limit and without the library's logs.
pub(crate) async fn call_within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ApiError> {
    match timeout(limit, suppress_logs(call)).await {
        Ok(response) => response.map_err(|error| ApiError::from(&error)),
        Err(_) => Err(ApiError::TimedOut),
    }
}
