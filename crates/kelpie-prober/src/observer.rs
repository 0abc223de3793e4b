//! The observer of a probe: makes its requests and prepares their results for the evaluator.

mod external_probe;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, pending};
use kelpie_core::Time;
use kelpie_core::prober::{
    AcceptedList, Delays, EgressState, Evaluator, FenceState, ListResult, ListSpan, Machines,
    NodeRules, NodeSetBuilder, Observation, ProbeResult, RecentWorst, Throttle,
};
use kelpie_kube::AnchoredClock;
use kelpie_kube::tenant::{ConnectionReuse, Listed, RequestStats, Tenant, TenantError};
use kelpie_net::Network;
use tokio::time::Instant;

use crate::credential_refresher::CredentialRefresher;
use crate::inputs::{LazyKubeconfig, ProbeInputs, same_arc};
use crate::look::{LookResult, Looks};
use crate::manager::ProbeContext;
use crate::node_lists::{NodeListLane, NodeListLimit};
use crate::recording::RecordedEvaluator;
use crate::source::ProbePath;
use crate::subsystem::Subsystem;
use external_probe::ExternalProbe;

/// A failed list of nodes is repeated after this time at the earliest. No decision waits for it.
const NODES_RETRY: Duration = Duration::from_secs(5);

/// Observes one cluster over its internal path and, if configured, its external path.
pub(crate) struct Observer {
    clock: AnchoredClock,
    timeout: Duration,
    internal: TenantPath,
    /// Reads the kubeconfig of the internal path when its credentials are rejected.
    refresher: CredentialRefresher,
    /// `None` if no external probe is configured.
    external: Option<Box<ExternalProbe>>,
    looks: Looks,
    /// The list of nodes under way, beside the looks.
    nodes: Option<BoxFuture<'static, NodesResult>>,
    nodes_failed_at: Option<Time>,
    node_lists: NodeListLimit,
    /// The lane of the next list of nodes.
    lane: NodeListLane,
    rules: Arc<NodeRules>,
    machines: Option<Arc<Machines>>,
    machines_current: bool,
    /// True if the conditions of the worker pools have changed since the nodes were last read.
    nodes_outdated: bool,
    list_delay: RecentWorst,
}

/// A network path to the cluster's API server, with the client that uses it.
#[derive(Debug)]
struct TenantPath {
    connection_reuse: ConnectionReuse,
    network: Network,
    kubeconfig: Option<Arc<LazyKubeconfig>>,
    /// The problem while there is no kubeconfig.
    no_kubeconfig: &'static str,
    /// The client, or the reason why the kubeconfig cannot be used.
    tenant: Result<Arc<Tenant>, String>,
    /// The fingerprint of the kubeconfig that the client uses.
    fingerprint: Option<u64>,
    /// The reason why the client uses another kubeconfig than the newest.
    problem: Option<String>,
}

/// The state of the fence and the measured delays at the instant of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundContext {
    /// The targets' state, taken together.
    pub(crate) fence: FenceState,
    /// True if this replica has nothing to fence.
    pub(crate) stands_by: bool,
    /// The time of the last restore by this replica.
    pub(crate) released: Option<Time>,
    /// The delays of the seed and of the prober itself.
    pub(crate) delays: Delays,
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

/// An answer to a request of the observer.
pub(crate) enum Answer {
    Look(LookResult),
    Nodes(NodesResult),
}

/// The result of listing the nodes.
pub(crate) struct NodesResult {
    read_at: Time,
    nodes: Result<Listed<NodeSetBuilder>, TenantError>,
}

/// Returns the problem of a list that had items which are too large.
fn oversized(items: usize, kind: &str) -> Option<String> {
    (items > 0).then(|| format!("{items} {kind} are too large, and are ignored"))
}

impl Observer {
    pub(crate) fn new(context: &ProbeContext, cluster: &Arc<str>) -> Self {
        let path = || TenantPath {
            connection_reuse: context.connection_reuse,
            network: context.network.clone(),
            kubeconfig: None,
            no_kubeconfig: context.source.texts().no_kubeconfig,
            tenant: Err(context.source.texts().no_kubeconfig.to_owned()),
            fingerprint: None,
            problem: None,
        };
        let external = || {
            let egress = context.own_egress.entry(cluster);
            ExternalProbe::new(context.clock, path(), egress)
        };
        let has_external = context.source.probes(ProbePath::External);
        let conventions = context.source.node_conventions();
        Self {
            clock: context.clock,
            timeout: context.config.probe.probe_timeout,
            internal: path(),
            refresher: context
                .kubeconfig_reader
                .refresher(cluster, ProbePath::Internal),
            external: has_external.then(|| Box::new(external())),
            looks: Looks::default(),
            nodes: None,
            nodes_failed_at: None,
            node_lists: context.node_lists.clone(),
            lane: NodeListLane::default(),
            rules: Arc::new(NodeRules::new(conventions, Arc::default())),
            machines: None,
            machines_current: true,
            nodes_outdated: false,
            list_delay: RecentWorst::default(),
        }
    }

    /// Applies the inputs that have changed since the last call.
    pub(crate) fn apply_inputs(&mut self, inputs: &ProbeInputs, evaluator: &mut RecordedEvaluator) {
        evaluator.set_grace(inputs.grace);
        self.internal.set_kubeconfig(inputs.internal.as_ref());
        if let Some(external) = &mut self.external {
            external.set_kubeconfig(inputs.external.as_ref());
        }
        if !Arc::ptr_eq(self.rules.pools(), &inputs.pools) {
            self.nodes_outdated |= *self.rules.pools() != inputs.pools;
            let conventions = *self.rules.conventions();
            self.rules = Arc::new(NodeRules::new(conventions, Arc::clone(&inputs.pools)));
        }
        let are_current = inputs.machines_current;
        if !same_arc(self.machines.as_ref(), inputs.machines.as_ref())
            || self.machines_current != are_current
        {
            self.machines.clone_from(&inputs.machines);
            self.machines_current = are_current;
            evaluator.observe_machines(self.machines.as_ref(), are_current);
        }
    }

    /// Starts a look at the leases. Returns the problem if there is no usable kubeconfig.
    pub(crate) fn start_look(&mut self) -> Result<(), String> {
        if let Some(external) = &mut self.external {
            external.start(Instant::now() + self.timeout);
        }
        let tenant = self.internal.tenant.as_ref().map_err(Clone::clone)?;
        self.looks.start(tenant, self.clock.now(), self.timeout);
        Ok(())
    }

    /// Returns the client for the cluster, if there is a usable kubeconfig.
    pub(crate) fn tenant(&self) -> Option<Arc<Tenant>> {
        self.internal.tenant.as_ref().ok().cloned()
    }

    /// Returns the machines of the cluster; `None` if they are not known.
    pub(crate) fn machines(&self) -> Option<&Machines> {
        self.machines.as_deref()
    }

    /// Returns the looks under way.
    pub(crate) fn looks(&self) -> &Looks {
        &self.looks
    }

    /// Waits for the next answer. Never returns while no request is under way.
    pub(crate) async fn next_answer(&mut self) -> Answer {
        let nodes = async {
            match &mut self.nodes {
                Some(nodes) => nodes.await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            look = self.looks.next() => Answer::Look(look),
            nodes = nodes => {
                self.nodes = None;
                Answer::Nodes(nodes)
            }
        }
    }

    /// Passes the result of a look to the evaluator, and starts to read the nodes if they are due.
    pub(crate) async fn round(
        &mut self,
        look: LookResult,
        evaluator: &mut RecordedEvaluator,
        context: RoundContext,
        is_pressed: bool,
    ) -> RoundResult {
        let mut recorder = RoundRecorder::default();
        recorder.record(Subsystem::Kubeconfig, self.internal.problem.clone());
        if look.is_denied() {
            self.refresher.denied(self.clock.now(), is_pressed);
        } else {
            self.refresher.accepted(self.clock.now());
        }
        let api_server = look.api_server();
        let version = look
            .version
            .as_ref()
            .and_then(|version| version.as_ref().err());
        // A request that was throttled or refused says nothing about the API server.
        if api_server != ProbeResult::Transient {
            let list = look
                .leases
                .as_ref()
                .err()
                .filter(|_| look.version.is_none());
            recorder.record_request(Subsystem::ApiServer, version.or(list));
        }
        match &look.leases {
            Ok(leases) => recorder.record(Subsystem::Leases, oversized(leases.oversized, "leases")),
            Err(error) => recorder.record_request(Subsystem::Leases, Some(error)),
        }
        let (start, is_refused) = (look.start, look.is_refused());
        let lists = match look.leases {
            Ok(leases) => {
                let span = ListSpan {
                    start: self.clock.time(leases.start),
                    end: self.clock.time(leases.end),
                };
                self.list_delay.record(span.end, leases.latency());
                let listed = evaluator.observe_leases(span, leases.version, leases.leases);
                self.read_nodes_if_due(evaluator, &listed, context.fence);
                ListResult::Read(listed)
            }
            Err(error) => {
                let now = self.clock.now();
                self.list_delay.record(now, now.since(start));
                match error {
                    _ if is_refused => ListResult::Refused,
                    TenantError::Denied { status: 403 } => ListResult::Denied,
                    _ => ListResult::Failed,
                }
            }
        };
        let external = match &mut self.external {
            Some(external) => {
                let leases_renewed = evaluator.leases_renewed(self.clock.now());
                let result = external.result(is_pressed, leases_renewed, &mut recorder);
                Some(result.await)
            }
            None => None,
        };
        self.result(start, api_server, external, lists, recorder, context)
    }

    /// Returns the result of a round without a kubeconfig, about whose API server nothing is known.
    pub(crate) fn round_without_access(
        &mut self,
        problem: String,
        context: RoundContext,
        is_pressed: bool,
    ) -> RoundResult {
        self.refresher.denied(self.clock.now(), is_pressed);
        let mut recorder = RoundRecorder::default();
        recorder.record(Subsystem::Kubeconfig, Some(problem));
        let external = self.external.as_ref().map(|_| ProbeResult::Transient);
        let (start, lists) = (self.clock.now(), ListResult::Failed);
        self.result(
            start,
            ProbeResult::Transient,
            external,
            lists,
            recorder,
            context,
        )
    }

    fn result(
        &self,
        start: Time,
        api_server: ProbeResult,
        external: Option<ProbeResult>,
        lists: ListResult,
        recorder: RoundRecorder,
        context: RoundContext,
    ) -> RoundResult {
        RoundResult {
            observation: Observation {
                api_server,
                external,
                lists,
                throttled: recorder.throttled,
                ..self.observation(start, context)
            },
            subsystems: recorder.subsystems,
            stats: [self.internal.take_stats(), recorder.external_stats],
        }
    }

    /// Returns the observation of an instant at which no request was answered.
    pub(crate) fn observation(&self, start: Time, context: RoundContext) -> Observation {
        let end = self.clock.now();
        let list = self.list_delay.at(end).max(self.looks.longest_wait(end));
        let external = self.external.as_ref();
        Observation {
            start,
            end,
            api_server: ProbeResult::Transient,
            external: external.map(|_| ProbeResult::Transient),
            egress: external.map_or(EgressState::Works, |external| external.egress()),
            lists: ListResult::NotAsked,
            throttled: None,
            fence: context.fence,
            stands_by: context.stands_by,
            released: context.released,
            delays: Delays {
                list,
                ..context.delays
            },
            jitter: fastrand::f64(),
        }
    }

    /// Starts to read the nodes beside the looks, unless that is under way or has just failed.
    fn read_nodes_if_due(
        &mut self,
        evaluator: &Evaluator,
        listed: &AcceptedList,
        fence: FenceState,
    ) {
        let now = self.clock.now();
        let is_due = self.nodes_outdated || evaluator.nodes_due(listed, fence);
        let failed_at = self.nodes_failed_at.filter(|_| !evaluator.lacks_nodes());
        let may_retry = failed_at.is_none_or(|at| now >= at.after(NODES_RETRY));
        let Ok(tenant) = &self.internal.tenant else {
            return;
        };
        if !is_due || !may_retry || self.nodes.is_some() {
            return;
        }
        let (tenant, rules) = (Arc::clone(tenant), Arc::clone(&self.rules));
        let (clock, timeout) = (self.clock, self.timeout);
        let turn = self.node_lists.turn(self.lane, now);
        self.nodes = Some(Box::pin(async move {
            // Held until the list is read.
            let _turn = turn.await;
            let read_at = clock.now();
            let deadline = Instant::now() + timeout;
            NodesResult {
                read_at,
                nodes: tenant.nodes(&rules, deadline).await,
            }
        }));
    }

    /// Passes a list of nodes to the evaluator. Returns a problem of the list, or the reason why
    /// there is none.
    pub(crate) fn observe_nodes(
        &mut self,
        result: NodesResult,
        evaluator: &mut RecordedEvaluator,
    ) -> Result<Option<String>, String> {
        let now = self.clock.now();
        self.lane.ended(now, now.since(result.read_at));
        match result.nodes {
            Ok(listed) => {
                // Other pools may name other conditions.
                self.nodes_outdated = listed.items.rules() != &self.rules;
                let nodes = listed.items.finish(self.machines.as_deref());
                evaluator.observe_nodes(nodes, result.read_at);
                self.nodes_failed_at = None;
                Ok(oversized(listed.oversized, "nodes"))
            }
            Err(error) => {
                self.nodes_failed_at = Some(now);
                Err(error.to_string())
            }
        }
    }
}

impl TenantPath {
    fn set_kubeconfig(&mut self, kubeconfig: Option<&Arc<LazyKubeconfig>>) {
        if same_arc(self.kubeconfig.as_ref(), kubeconfig) {
            return;
        }
        self.kubeconfig = kubeconfig.cloned();
        let usable = kubeconfig.map_or_else(
            || Err(self.no_kubeconfig.to_owned()),
            |kubeconfig| kubeconfig.access_or_previous(),
        );
        match usable {
            Ok(usable) => {
                // The same credentials keep their connections, whatever happened to the Secret.
                if self.fingerprint.replace(usable.fingerprint) != Some(usable.fingerprint) {
                    let access = usable.access.with_network(&self.network);
                    let mut tenant = Tenant::new(access, self.connection_reuse);
                    if let Ok(former) = &self.tenant {
                        tenant = tenant.with_addresses_of(former);
                    }
                    self.tenant = Ok(Arc::new(tenant));
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

    async fn version(&self, deadline: Instant) -> Result<Result<(), TenantError>, String> {
        let tenant = self.tenant.as_ref().map_err(Clone::clone)?;
        Ok(tenant.version(deadline).await)
    }

    fn take_stats(&self) -> RequestStats {
        let tenant = self.tenant.as_ref().ok();
        tenant.map(|tenant| tenant.take_stats()).unwrap_or_default()
    }
}

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the observation of an instant at which nothing is known about the cluster but that
    /// it is not fenced.
    pub(crate) fn nothing_seen(now: Time) -> Observation {
        Observation {
            start: now,
            end: now,
            api_server: ProbeResult::Success,
            external: None,
            egress: EgressState::Works,
            lists: ListResult::NotAsked,
            throttled: None,
            fence: FenceState::None,
            stands_by: false,
            released: None,
            delays: Delays::default(),
            jitter: 0.0,
        }
    }
}
