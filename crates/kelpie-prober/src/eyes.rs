//! The eyes of a probe: one round's look at a cluster.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use kelpie_core::{
    Fence, Judge, Listing, Lists, Machines, Observation, Outcome, PoolConditions, Roster, Throttle,
    Time,
};
use kelpie_kube::Clock;
use kelpie_kube::tenant::{Haste, Keeping, Listed, Probed, Tenant, TenantError, Traffic};
use kelpie_net::Network;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::inputs::{Inputs, Kubeconfig, is_same};
use crate::part::Part;

/// A round waits this long for the external path.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a probe looks through, and what it knows beside the leases.
#[derive(Debug)]
pub(crate) struct Eyes {
    clock: Clock,
    timeout: Duration,
    internal: View,
    /// `None`: there is no external probe.
    external: Option<Box<Sentry>>,
    pools: Arc<PoolConditions>,
    machines: Option<Arc<Machines>>,
    /// The nodes were judged by other conditions than those that hold now.
    roster_is_outdated: bool,
}

/// One way into the cluster.
#[derive(Debug)]
struct View {
    keeping: Keeping,
    network: Network,
    kubeconfig: Option<Arc<Kubeconfig>>,
    /// What the kubeconfig gives, or why it gives nothing.
    tenant: Result<Tenant, String>,
}

/// What a round is told about the fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// What the targets look like.
    pub(crate) fence: Fence,
    /// There is nothing to fence for this replica.
    pub(crate) stands_by: bool,
    /// When they were last released.
    pub(crate) released: Option<Time>,
    /// Urgent if the cluster may trip now: no time for one request after the other.
    pub(crate) haste: Haste,
}

/// What a round saw, and what went wrong.
#[derive(Debug)]
pub(crate) struct Sighting {
    pub(crate) observation: Observation,
    /// Every part that was tried: `None` if it worked.
    pub(crate) parts: Vec<(Part, Option<String>)>,
    /// The requests over both ways.
    pub(crate) traffic: [Traffic; 2],
}

impl Eyes {
    pub(crate) fn new(
        clock: Clock,
        timeout: Duration,
        has_external: bool,
        keeping: Keeping,
        network: &Network,
    ) -> Self {
        Self {
            clock,
            timeout,
            internal: View::new(keeping, network),
            external: has_external.then(|| Box::new(Sentry::new(View::new(keeping, network)))),
            pools: Arc::default(),
            machines: None,
            roster_is_outdated: false,
        }
    }

    /// Takes over what has changed.
    pub(crate) fn take(&mut self, inputs: &Inputs, judge: &mut Judge) {
        judge.set_grace(inputs.grace);
        self.internal.take(inputs.internal.as_ref());
        if let Some(external) = &mut self.external {
            external.take(inputs.external.as_ref());
        }
        if !Arc::ptr_eq(&self.pools, &inputs.pools) {
            self.roster_is_outdated |= self.pools != inputs.pools;
            self.pools = Arc::clone(&inputs.pools);
        }
        if !is_same(self.machines.as_ref(), inputs.machines.as_ref()) {
            self.machines.clone_from(&inputs.machines);
            judge.learn_machines(self.machines.as_deref());
        }
    }

    /// One look at the cluster.
    pub(crate) async fn look(&mut self, judge: &mut Judge, round: Round) -> Sighting {
        let start = self.clock.now();
        let deadline = Instant::now() + self.timeout;
        let mut notes = Notes::default();
        if let Some(sentry) = &mut self.external {
            sentry.go(deadline);
        }
        let probed = self.internal.probe(round.haste, deadline).await;
        let external = match &mut self.external {
            Some(sentry) => Some(sentry.report(round.haste, &mut notes).await),
            None => None,
        };
        let (api_server, lists) = match probed {
            Err(why) => {
                notes.part(Part::Kubeconfig, Some(why));
                // Nothing is known about the API server.
                (Outcome::Transient, Lists::NotAsked)
            }
            Ok(probed) => {
                notes.part(Part::Kubeconfig, None);
                let api_server = notes.outcome(Part::ApiServer, &probed.version);
                let lists = match probed.leases {
                    None => Lists::NotAsked,
                    Some(leases) => {
                        notes.note(Part::Leases, leases.as_ref().err());
                        self.read(judge, leases, round.fence, deadline, &mut notes)
                            .await
                    }
                };
                (api_server, lists)
            }
        };
        Sighting {
            observation: Observation {
                start,
                end: self.clock.now(),
                api_server,
                external,
                lists,
                throttled: notes.throttled,
                fence: round.fence,
                stands_by: round.stands_by,
                released: round.released,
                jitter: fastrand::f64(),
            },
            parts: notes.parts,
            traffic: [self.internal.take_traffic(), notes.external_traffic],
        }
    }

    /// Gives the leases to the judge, and the nodes if they are due.
    async fn read(
        &mut self,
        judge: &mut Judge,
        leases: Result<Listed, TenantError>,
        fence: Fence,
        deadline: Instant,
        notes: &mut Notes,
    ) -> Lists {
        let Ok(leases) = leases else {
            return Lists::Failed;
        };
        let listing = Listing {
            start: self.clock.time(leases.start),
            end: self.clock.time(leases.end),
        };
        let listed = judge.read(listing, leases.leases.iter());
        if !self.roster_is_outdated && !judge.nodes_due(&listed, fence) {
            return Lists::Read(listed);
        }
        let Ok(tenant) = &mut self.internal.tenant else {
            return Lists::Failed;
        };
        let read_at = self.clock.now();
        let read = tenant.nodes(deadline).await;
        notes.note(Part::Nodes, read.as_ref().err());
        let Ok(found) = read else {
            return Lists::Failed;
        };
        let roster = Roster::new(&found, self.machines.as_deref(), &self.pools);
        judge.learn(roster, read_at);
        self.roster_is_outdated = false;
        Lists::Read(listed)
    }
}

impl View {
    fn new(keeping: Keeping, network: &Network) -> Self {
        Self {
            keeping,
            network: network.clone(),
            kubeconfig: None,
            tenant: Err(ABSENT.to_owned()),
        }
    }

    fn take(&mut self, kubeconfig: Option<&Arc<Kubeconfig>>) {
        if is_same(self.kubeconfig.as_ref(), kubeconfig) {
            return;
        }
        self.kubeconfig = kubeconfig.cloned();
        let access =
            kubeconfig.map_or_else(|| Err(ABSENT.to_owned()), |kubeconfig| kubeconfig.access());
        self.tenant = access.map(|access| Tenant::new(access.through(&self.network), self.keeping));
    }

    async fn probe(&mut self, haste: Haste, deadline: Instant) -> Result<Probed, String> {
        match &mut self.tenant {
            Ok(tenant) => Ok(tenant.probe(haste, deadline).await),
            Err(why) => Err(why.clone()),
        }
    }

    async fn version(&mut self, deadline: Instant) -> Result<Result<(), TenantError>, String> {
        match &mut self.tenant {
            Ok(tenant) => Ok(tenant.version(deadline).await),
            Err(why) => Err(why.clone()),
        }
    }

    fn take_traffic(&mut self) -> Traffic {
        match &mut self.tenant {
            Ok(tenant) => tenant.take_traffic(),
            Err(_) => Traffic::default(),
        }
    }
}

/// Looks over the external path beside the rounds: there, packets are lost rather than refused, and
/// a look that hangs must not hold up the judging of leases.
#[derive(Debug)]
struct Sentry {
    /// `None` while a look is under way.
    view: Option<View>,
    look: Option<AbortOnDropHandle<Look>>,
}

/// A look over the external path that is done.
type Look = (View, Result<Result<(), TenantError>, String>);

impl Sentry {
    fn new(view: View) -> Self {
        Self {
            view: Some(view),
            look: None,
        }
    }

    fn take(&mut self, kubeconfig: Option<&Arc<Kubeconfig>>) {
        if let Some(view) = &mut self.view {
            view.take(kubeconfig);
        }
    }

    /// Starts a look, unless one is under way.
    fn go(&mut self, deadline: Instant) {
        let Some(mut view) = self.view.take() else {
            return;
        };
        let look = async move {
            let result = view.version(deadline).await;
            (view, result)
        };
        self.look = Some(AbortOnDropHandle::new(tokio::spawn(look)));
    }

    /// What the look found, if it is done or soon will be; else nothing new is known.
    async fn report(&mut self, haste: Haste, notes: &mut Notes) -> Outcome {
        let patience = match haste {
            Haste::Routine => PATIENCE,
            Haste::Urgent => Duration::ZERO,
        };
        let Some(look) = &mut self.look else {
            return Outcome::Transient;
        };
        let Ok(done) = timeout(patience, look).await else {
            return Outcome::Transient;
        };
        self.look = None;
        let (view, result) = match done.map_err(JoinError::try_into_panic) {
            Ok(done) => done,
            // A look that ended by a defect took its view with it: the probe is begun anew.
            Err(Ok(defect)) => resume_unwind(defect),
            // The process ends.
            Err(Err(_)) => return Outcome::Transient,
        };
        let view = self.view.insert(view);
        notes.external_traffic = view.take_traffic();
        match result {
            Ok(result) => {
                notes.part(Part::ExternalKubeconfig, None);
                notes.outcome(Part::External, &result)
            }
            Err(why) => {
                notes.part(Part::ExternalKubeconfig, Some(why));
                Outcome::Transient
            }
        }
    }
}

const ABSENT: &str = "there is no Secret with a kubeconfig in the cluster's namespace";

/// What is noted during a round.
#[derive(Debug, Default)]
struct Notes {
    parts: Vec<(Part, Option<String>)>,
    throttled: Option<Throttle>,
    external_traffic: Traffic,
}

impl Notes {
    fn part(&mut self, part: Part, why: Option<String>) {
        self.parts.push((part, why));
    }

    fn note(&mut self, part: Part, error: Option<&TenantError>) {
        if let Some(TenantError::Throttled { retry_after }) = error {
            self.throttled = Some(Throttle {
                retry_after: *retry_after,
            });
        }
        self.part(part, error.map(ToString::to_string));
    }

    fn outcome(&mut self, part: Part, result: &Result<(), TenantError>) -> Outcome {
        self.note(part, result.as_ref().err());
        match result {
            Ok(()) => Outcome::Success,
            Err(error) if error.is_transient() => Outcome::Transient,
            Err(_) => Outcome::Failure,
        }
    }
}
