//! The observer of a probe: makes the requests of one round and collects their results.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use kelpie_core::prober::{
    Evaluator, FenceState, ListResult, ListSpan, Machines, NodeConventions, NodeSet, Observation,
    PoolConditions, ProbeResult, Throttle,
};
use kelpie_kube::AnchoredClock;
use kelpie_kube::tenant::{
    ConnectionReuse, ProbeOutcome, RequestStats, Tenant, TenantError, TimedLeaseList, Urgency,
};
use kelpie_net::Network;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::credential_refresher::CredentialRefresher;
use crate::inputs::{LazyKubeconfig, ProbeInputs, same_arc};
use crate::manager::ProbeContext;
use crate::source::ProbePath;
use crate::subsystem::Subsystem;

/// The time that a routine round waits for the response over the external path.
const EXTERNAL_WAIT: Duration = Duration::from_secs(1);

/// Observes one cluster over its internal path and, if configured, its external path.
pub(crate) struct Observer {
    clock: AnchoredClock,
    timeout: Duration,
    internal: TenantPath,
    /// Reads the kubeconfig of the internal path when its credentials are rejected.
    refresher: CredentialRefresher,
    /// `None` if no external probe is configured.
    external: Option<Box<ExternalProbe>>,
    pools: Arc<PoolConditions>,
    conventions: NodeConventions,
    machines: Option<Arc<Machines>>,
    /// True if the conditions of the worker pools have changed since the nodes were last read.
    nodes_outdated: bool,
}

/// A network path to the cluster's API server, with the client that uses it.
#[derive(Debug)]
struct TenantPath {
    connection_reuse: ConnectionReuse,
    network: Network,
    kubeconfig: Option<Arc<LazyKubeconfig>>,
    /// The client, or the reason why the kubeconfig cannot be used.
    tenant: Result<Tenant, String>,
    /// The fingerprint of the kubeconfig that the client uses.
    fingerprint: Option<u64>,
    /// The reason why the client uses another kubeconfig than the newest.
    problem: Option<String>,
}

/// The state of the fence at the start of a round, and the urgency of the round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundContext {
    /// The targets' state, taken together.
    pub(crate) fence: FenceState,
    /// True if this replica has nothing to fence: another one leads, or all targets are down.
    pub(crate) stands_by: bool,
    /// The time of the last restore by this replica.
    pub(crate) released: Option<Time>,
    /// Urgent if the cluster may trip in this round.
    pub(crate) urgency: Urgency,
}

/// The result of one round.
#[derive(Debug)]
pub(crate) struct RoundResult {
    pub(crate) observation: Observation,
    /// Every subsystem that was used, with its problem; `None` if it works.
    pub(crate) subsystems: Vec<(Subsystem, Option<String>)>,
    /// The requests over the internal and the external path.
    pub(crate) stats: [RequestStats; 2],
}

impl Observer {
    pub(crate) fn new(context: &ProbeContext, cluster: &Arc<str>) -> Self {
        let path = || TenantPath {
            connection_reuse: context.connection_reuse,
            network: context.network.clone(),
            kubeconfig: None,
            tenant: Err(NO_KUBECONFIG.to_owned()),
            fingerprint: None,
            problem: None,
        };
        let external = || ExternalProbe {
            path: Some(path()),
            request: None,
        };
        let has_external = context.config.external_kubeconfig_secret.is_some();
        Self {
            clock: context.clock,
            timeout: context.config.probe.probe_timeout,
            internal: path(),
            refresher: context
                .kubeconfig_reader
                .refresher(cluster, ProbePath::Internal),
            external: has_external.then(|| Box::new(external())),
            pools: Arc::default(),
            conventions: context.source.node_conventions(),
            machines: None,
            nodes_outdated: false,
        }
    }

    /// Applies the inputs that have changed since the last call.
    pub(crate) fn apply_inputs(&mut self, inputs: &ProbeInputs, evaluator: &mut Evaluator) {
        evaluator.set_grace(inputs.grace);
        self.internal.set_kubeconfig(inputs.internal.as_ref());
        let external = self.external.as_mut();
        // Not while a request is in flight: the next round sets it.
        if let Some(path) = external.and_then(|external| external.path.as_mut()) {
            path.set_kubeconfig(inputs.external.as_ref());
        }
        if !Arc::ptr_eq(&self.pools, &inputs.pools) {
            self.nodes_outdated |= self.pools != inputs.pools;
            self.pools = Arc::clone(&inputs.pools);
        }
        if !same_arc(self.machines.as_ref(), inputs.machines.as_ref()) {
            self.machines.clone_from(&inputs.machines);
            evaluator.observe_machines(self.machines.as_deref());
        }
    }

    /// Runs the requests of one round.
    pub(crate) async fn observe(
        &mut self,
        evaluator: &mut Evaluator,
        round: RoundContext,
    ) -> RoundResult {
        let start = self.clock.now();
        let deadline = Instant::now() + self.timeout;
        let mut recorder = RoundRecorder::default();
        if let Some(external) = &mut self.external {
            external.start(deadline);
        }
        let probed = self.internal.probe(round.urgency, deadline).await;
        let external = match &mut self.external {
            Some(external) => Some(external.result(round.urgency, &mut recorder).await),
            None => None,
        };
        let is_pressed = round.urgency == Urgency::Urgent;
        if credentials_rejected(&probed) {
            self.refresher.denied(self.clock.now(), is_pressed);
        } else {
            self.refresher.accepted(self.clock.now());
        }
        let (api_server, lists) = match probed {
            Err(problem) => {
                recorder.record(Subsystem::Kubeconfig, Some(problem));
                // Without a kubeconfig nothing is known about the API server.
                (ProbeResult::Transient, ListResult::NotAsked)
            }
            Ok(probed) => {
                recorder.record(Subsystem::Kubeconfig, self.internal.problem.clone());
                let api_server = recorder.record_probe(Subsystem::ApiServer, &probed.version);
                let lists = match probed.leases {
                    None => ListResult::NotAsked,
                    Some(leases) => {
                        self.process_leases(evaluator, leases, round.fence, deadline, &mut recorder)
                            .await
                    }
                };
                (api_server, lists)
            }
        };
        RoundResult {
            observation: Observation {
                start,
                end: self.clock.now(),
                api_server,
                external,
                lists,
                throttled: recorder.throttled,
                fence: round.fence,
                stands_by: round.stands_by,
                released: round.released,
                jitter: fastrand::f64(),
            },
            subsystems: recorder.subsystems,
            stats: [self.internal.take_stats(), recorder.external_stats],
        }
    }

    /// Passes the leases to the evaluator, and reads the nodes if they are due.
    async fn process_leases(
        &mut self,
        evaluator: &mut Evaluator,
        leases: Result<TimedLeaseList, TenantError>,
        fence: FenceState,
        deadline: Instant,
        recorder: &mut RoundRecorder,
    ) -> ListResult {
        recorder.record_request(Subsystem::Leases, leases.as_ref().err());
        let Ok(leases) = leases else {
            return ListResult::Failed;
        };
        let listing = ListSpan {
            start: self.clock.time(leases.start),
            end: self.clock.time(leases.end),
        };
        let listed = evaluator.observe_leases(listing, leases.leases.iter());
        if !self.nodes_outdated && !evaluator.nodes_due(&listed, fence) {
            return ListResult::Read(listed);
        }
        let Ok(tenant) = &mut self.internal.tenant else {
            return ListResult::Failed;
        };
        let read_at = self.clock.now();
        let read = tenant.nodes(self.conventions, deadline).await;
        recorder.record_request(Subsystem::Nodes, read.as_ref().err());
        let Ok(found) = read else {
            return ListResult::Failed;
        };
        let machines = self.machines.as_deref();
        let nodes = NodeSet::new(&found, machines, &self.pools, &self.conventions);
        evaluator.observe_nodes(nodes, read_at);
        self.nodes_outdated = false;
        ListResult::Read(listed)
    }
}

/// Returns whether the cluster rejects the credentials, or there are none.
fn credentials_rejected(probed: &Result<ProbeOutcome, String>) -> bool {
    let Ok(probed) = probed else {
        return true;
    };
    let leases = probed.leases.as_ref();
    let leases = leases.and_then(|leases| leases.as_ref().err());
    let errors = [probed.version.as_ref().err(), leases];
    let mut statuses = errors.into_iter().flatten().filter_map(TenantError::status);
    statuses.any(|status| matches!(status, 401 | 403))
}

impl TenantPath {
    fn set_kubeconfig(&mut self, kubeconfig: Option<&Arc<LazyKubeconfig>>) {
        if same_arc(self.kubeconfig.as_ref(), kubeconfig) {
            return;
        }
        self.kubeconfig = kubeconfig.cloned();
        let usable = kubeconfig.map_or_else(
            || Err(NO_KUBECONFIG.to_owned()),
            |kubeconfig| kubeconfig.access_or_previous(),
        );
        match usable {
            Ok(usable) => {
                // The same credentials keep their connections, whatever happened to the Secret.
                if self.fingerprint.replace(usable.fingerprint) != Some(usable.fingerprint) {
                    let access = usable.access.with_network(&self.network);
                    self.tenant = Ok(Tenant::new(access, self.connection_reuse));
                }
                self.problem = usable.problem;
            }
            Err(problem) => {
                self.tenant = Err(problem);
                self.fingerprint = None;
                self.problem = None;
            }
        }
    }

    async fn probe(&mut self, urgency: Urgency, deadline: Instant) -> Result<ProbeOutcome, String> {
        let tenant = self.tenant.as_mut().map_err(|problem| problem.clone())?;
        Ok(tenant.probe(urgency, deadline).await)
    }

    async fn version(&mut self, deadline: Instant) -> Result<Result<(), TenantError>, String> {
        let tenant = self.tenant.as_mut().map_err(|problem| problem.clone())?;
        Ok(tenant.version(deadline).await)
    }

    fn take_stats(&mut self) -> RequestStats {
        let tenant = self.tenant.as_mut().ok();
        tenant.map(Tenant::take_stats).unwrap_or_default()
    }
}

/// Probes the external path in a task of its own, beside the rounds.
///
/// On this path packets are rather lost than refused, and a request that hangs must not delay the
/// evaluation of leases.
#[derive(Debug)]
struct ExternalProbe {
    /// `None` while a request is in flight.
    path: Option<TenantPath>,
    request: Option<AbortOnDropHandle<ExternalResponse>>,
}

/// The path, which the task returns, and the result of the request.
type ExternalResponse = (TenantPath, Result<Result<(), TenantError>, String>);

impl ExternalProbe {
    /// Starts a request, unless one is in flight.
    fn start(&mut self, deadline: Instant) {
        let Some(mut path) = self.path.take() else {
            return;
        };
        let request = async move {
            let result = path.version(deadline).await;
            (path, result)
        };
        self.request = Some(AbortOnDropHandle::new(tokio::spawn(request)));
    }

    /// Returns the result of the request if it arrives soon, and a transient failure otherwise. An
    /// urgent round does not wait.
    async fn result(&mut self, urgency: Urgency, recorder: &mut RoundRecorder) -> ProbeResult {
        let wait = match urgency {
            Urgency::Routine => EXTERNAL_WAIT,
            Urgency::Urgent => Duration::ZERO,
        };
        let Some(request) = &mut self.request else {
            return ProbeResult::Transient;
        };
        let Ok(response) = timeout(wait, request).await else {
            return ProbeResult::Transient;
        };
        self.request = None;
        let (path, result) = match response.map_err(JoinError::try_into_panic) {
            Ok(response) => response,
            // A task that panicked took the path with it. The manager restarts the whole probe.
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime is shutting down.
            Err(Err(_)) => return ProbeResult::Transient,
        };
        let path = self.path.insert(path);
        recorder.external_stats = path.take_stats();
        match result {
            Ok(result) => {
                recorder.record(Subsystem::ExternalKubeconfig, path.problem.clone());
                recorder.record_probe(Subsystem::External, &result)
            }
            Err(problem) => {
                recorder.record(Subsystem::ExternalKubeconfig, Some(problem));
                ProbeResult::Transient
            }
        }
    }
}

const NO_KUBECONFIG: &str =
    "the cluster's namespace has no kubeconfig Secret with the configured name";

/// Collects the results of a round.
#[derive(Debug, Default)]
struct RoundRecorder {
    subsystems: Vec<(Subsystem, Option<String>)>,
    throttled: Option<Throttle>,
    external_stats: RequestStats,
}

impl RoundRecorder {
    fn record(&mut self, subsystem: Subsystem, problem: Option<String>) {
        self.subsystems.push((subsystem, problem));
    }

    fn record_request(&mut self, subsystem: Subsystem, error: Option<&TenantError>) {
        if let Some(TenantError::Throttled { retry_after }) = error {
            self.throttled = Some(Throttle {
                retry_after: *retry_after,
            });
        }
        self.record(subsystem, error.map(ToString::to_string));
    }

    fn record_probe(
        &mut self,
        subsystem: Subsystem,
        result: &Result<(), TenantError>,
    ) -> ProbeResult {
        self.record_request(subsystem, result.as_ref().err());
        match result {
            Ok(()) => ProbeResult::Success,
            Err(error) if error.is_transient() => ProbeResult::Transient,
            Err(_) => ProbeResult::Failure,
        }
    }
}
