//! Observes the plays of a landscape, and judges them with the oracle.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use kelpie_chaos::{AuditContext, Oracle, Outlook, PartitionTruth, Subject};
use kelpie_core::{Fraction, Time};
use kelpie_sim::resource::DEPLOYMENTS;
use kelpie_sim::scenario::Fault;
use kelpie_sim::{Landscape, LandscapePlan, Platform, SimEvent, SimEventKind, SimProcess};
use prometheus_client::registry::Registry;
use serde_json::Value;

use crate::auditor::{Auditor, MARKER};
use crate::guard::guard_of;
use crate::pause::{UNTOUCHED, pauses};
use crate::replica::{LEASE, prober_with_guard};
use crate::subject::Prober;

/// The default of `nodeLeaseFailureFraction`.
const FAILURE_FRACTION: f64 = 0.6;

/// The longest time until kubelets renew after a partition.
const RENEWED: Duration = Duration::from_secs(10);

/// The time in which a fence has to be released after that and after the second fault.
const RESTORE_TIME: Duration = Duration::from_secs(20);

/// A decision to fence may be carried out for this long after the partition has ended.
const SLACK: Duration = Duration::from_secs(15);

/// The prober as the subject of the matrix, with or without guards.
pub(super) struct Watched<const GUARDS: bool>;

impl<const GUARDS: bool> Subject for Watched<GUARDS> {
    type Exposed = Registry;
    type Auditor = PlayObserver;
    const NAME: &'static str = "matrix";
    const LEASE: &'static str = LEASE;
    const FAULT_INTERVAL: Duration = Duration::MAX;
    const RECOVERY_TIME: Duration = Duration::from_mins(2);

    fn random_fault(rng: &mut Rng) -> Fault {
        Prober::random_fault(rng)
    }

    fn start(landscape: &Landscape, name: &str, elected: bool) -> SimProcess<Registry> {
        if GUARDS {
            prober_with_guard(landscape, name, elected)
        } else {
            Prober::start(landscape, name, elected)
        }
    }

    fn leftovers(registry: &Registry) -> Vec<String> {
        Prober::leftovers(registry)
    }
}

/// The result of one play: a cluster that was cut off, or one that was not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlayResult {
    pub(super) cluster: String,
    /// The seconds from the cut to the second fault; `None` if the cluster was not cut off.
    pub(super) phase: Option<f64>,
    /// The chance of a fence in time; `None` if the cluster was not cut off.
    outlook: Option<Outlook>,
    /// `None` if no node turned Unknown.
    pub(super) loss: Option<Loss>,
    /// True if the fence was released late, or not exactly.
    pub(super) is_restored_late: bool,
    /// True if there was a fence without the weakest ground.
    pub(super) is_unfounded: bool,
    /// The seconds from the fence to the first deadline.
    pub(super) margin: Option<f64>,
}

/// A node turned Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// There was no guard, or it had run out.
    Unguarded,
    /// The guard had not run out.
    UnderGuard,
}

impl PlayResult {
    /// Returns whether a fence in time was possible.
    pub(super) fn is_possible(&self) -> bool {
        self.outlook.is_some_and(|outlook| outlook.is_possible())
    }
}

impl fmt::Display for PlayResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.cluster)?;
        match self.phase {
            None => f.write_str("not cut off")?,
            Some(phase) => write!(
                f,
                "second fault {phase:+} s from the cut, odds of failure {:.4}, margin {:.3?}",
                self.outlook.map_or(1.0, |outlook| outlook.failure_odds),
                self.margin
            )?,
        }
        for (holds, text) in [
            (self.loss.is_some() && self.is_possible(), "LOST"),
            (
                self.loss.is_some() && !self.is_possible(),
                "lost, not possible",
            ),
            (self.loss == Some(Loss::UnderGuard), "LOST UNDER GUARD"),
            (self.is_restored_late, "RESTORED LATE"),
            (self.is_unfounded, "UNFOUNDED"),
        ] {
            if holds {
                write!(f, ", {text}")?;
            }
        }
        Ok(())
    }
}

struct Play {
    cluster: String,
    oracle: Oracle,
    /// The start and end of the partition.
    partition: Option<(Time, Time)>,
    truth: Option<PartitionTruth>,
    replicas: u64,
    fences: Vec<Time>,
    restored_at: Option<Time>,
    loss: Option<Loss>,
    is_unfounded: bool,
}

pub(super) struct PlayObserver {
    /// Checks the rules that hold in any run.
    auditor: Auditor,
    landscape: Landscape,
    plan: LandscapePlan,
    plays: Vec<Play>,
    /// The start and end of the second fault.
    fault: Option<(Time, Time)>,
    /// The second fault is that the watchdog gets no CPU.
    is_starved: bool,
    /// The replicas of kube-controller-manager that the scenario sets.
    scripted: Option<u32>,
    results: Vec<PlayResult>,
}

impl kelpie_chaos::Auditor for PlayObserver {
    type Counts = Vec<PlayResult>;

    fn new(context: AuditContext) -> Self {
        let (landscape, plan) = (context.landscape.clone(), context.chaos.plan.clone());
        let incidents = &context.chaos.scenario.incidents;
        let is_partition = |fault: &Fault| matches!(fault, Fault::Partition(_));
        let play = |number: usize| {
            let cluster = plan.cluster_name(number);
            let partition = incidents.iter().find(|incident| {
                is_partition(&incident.fault) && context.affects(incident, &cluster)
            });
            let fraction = Fraction::new(FAILURE_FRACTION).unwrap();
            let faults = context.other_faults(&cluster);
            Play {
                oracle: Oracle::new(faults, context.chaos.watchdogs, plan.grace_period, fraction),
                partition: partition.map(|incident| context.period(incident)),
                truth: None,
                replicas: u64::from(plan.replicas[0]),
                fences: Vec::new(),
                restored_at: None,
                loss: None,
                is_unfounded: false,
                cluster,
            }
        };
        let plays = (0..plan.clusters).map(play).collect();
        let mut others = incidents
            .iter()
            .filter(|incident| !is_partition(&incident.fault));
        let second = others.next();
        Self {
            plays,
            fault: second.map(|incident| {
                let (begin, end) = context.period(incident);
                (
                    begin,
                    if incident.fault.is_instant() {
                        begin
                    } else {
                        end
                    },
                )
            }),
            is_starved: second.is_some_and(|incident| incident.fault == Fault::CpuStarvation),
            scripted: second.and_then(|incident| match incident.fault {
                Fault::Scale { replicas, .. } => Some(replicas),
                _ => None,
            }),
            auditor: <Auditor as kelpie_chaos::Auditor>::new(context),
            landscape,
            plan,
            results: Vec::new(),
        }
    }

    fn context(&mut self) -> &mut AuditContext {
        self.auditor.context()
    }

    fn counts(&self) -> Vec<PlayResult> {
        self.results.clone()
    }

    fn observe(&mut self, event: &SimEvent) {
        // Its rules are about Deployments.
        if self.plan.platform == Platform::Gardener {
            self.auditor.observe(event);
        }
        for play in &mut self.plays {
            play.capture_truth(&self.landscape, self.plan.nodes, event.at);
        }
        match &event.kind {
            SimEventKind::Request {
                server, verb, path, ..
            } => {
                let is_write = !["get", "list", "watch"].contains(verb);
                if &**server == "seed" && is_write && path.contains("/deployments/") {
                    let written = |play: &&mut Play| path.contains(&play.cluster);
                    // A write that was sent without CPU is delivered when that ends.
                    let is_late = self.is_starved_until(event.at);
                    for play in self.plays.iter_mut().filter(written) {
                        play.on_write(&self.landscape, event.at, is_late);
                    }
                }
            }
            SimEventKind::NodeUnknown { cluster, .. } => {
                let affected = |play: &&mut Play| *play.cluster == **cluster;
                let guard = guard_of(&self.landscape, cluster);
                let is_guarded = guard.is_some_and(|guard| guard.until > event.at);
                for play in self.plays.iter_mut().filter(affected) {
                    if is_guarded {
                        play.loss = Some(Loss::UnderGuard);
                    }
                    play.loss.get_or_insert(Loss::Unguarded);
                }
            }
            SimEventKind::FaultBegan { .. } if self.plan.platform == Platform::Gardener => {
                for play in &mut self.plays {
                    play.replicas = replicas(&kcm(&self.landscape, &play.cluster));
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self) {
        if self.plan.platform == Platform::Gardener {
            self.auditor.finish();
        }
        let plays = std::mem::take(&mut self.plays);
        self.results = plays.iter().map(|play| self.judge(play)).collect();
    }
}

impl PlayObserver {
    /// Returns whether the watchdog got no CPU until a moment before.
    fn is_starved_until(&self, at: Time) -> bool {
        let end = self.fault.filter(|_| self.is_starved).map(|(_, end)| end);
        end.is_some_and(|end| at.since(end) < Duration::from_millis(100))
    }

    fn judge(&self, play: &Play) -> PlayResult {
        // With Cluster API nothing can be scaled, so a node is lost once its guard has run out.
        let can_scale = self.plan.platform == Platform::Gardener;
        let truth = play.truth.as_ref().filter(|_| can_scale);
        let outlook = truth.and_then(|truth| play.oracle.outlook(truth));
        let phase = play
            .partition
            .zip(self.fault)
            .map(|((cut_at, _), (at, _))| {
                at.since(cut_at).as_secs_f64() - cut_at.since(at).as_secs_f64()
            });
        let phase = phase.or(play.partition.map(|_| 0.0));
        let due = play.partition.map(|(_, end)| {
            let renewed = end.after(RENEWED);
            let last = self.fault.filter(|(_, fault_end)| *fault_end > end);
            last.map_or(renewed, |(_, fault_end)| fault_end.max(renewed))
                .after(RESTORE_TIME)
        });
        let is_fenced = !play.fences.is_empty();
        let is_late = is_fenced && play.restored_at.is_none_or(|at| Some(at) > due);
        let margin = |outlook: Outlook| {
            let at = *play.fences.first()?;
            let ahead = outlook.deadline.since(at).as_secs_f64();
            Some(ahead - at.since(outlook.deadline).as_secs_f64())
        };
        PlayResult {
            cluster: play.cluster.clone(),
            phase,
            outlook,
            loss: play.loss,
            is_restored_late: is_late || !self.is_exact(&play.cluster),
            is_unfounded: play.is_unfounded,
            margin: outlook.and_then(margin),
        }
    }

    /// Returns whether all controllers are as before, or as the scenario has set them.
    fn is_exact(&self, cluster: &str) -> bool {
        if self.plan.platform == Platform::ClusterApi {
            return pauses(&self.landscape, cluster) == UNTOUCHED;
        }
        let controllers = LandscapePlan::CONTROLLERS.into_iter().enumerate();
        controllers
            .zip(self.plan.replicas)
            .all(|((index, name), usual)| {
                let scripted = self.scripted.filter(|_| index == 0);
                let object = deployment(&self.landscape, cluster, name);
                replicas(&object) == u64::from(scripted.unwrap_or(usual))
                    && object["metadata"]["annotations"].get(MARKER).is_none()
            })
    }
}

impl Play {
    /// Reads the nodes' last renewals at the cut.
    fn capture_truth(&mut self, landscape: &Landscape, nodes: usize, at: Time) {
        let is_due = self.partition.is_some_and(|(cut_at, _)| at >= cut_at);
        if self.truth.is_some() || !is_due {
            return;
        }
        let now = landscape.now();
        let ground_truth = landscape.ground_truth(&self.cluster).unwrap();
        let renewals = ground_truth.renewal_gaps.iter();
        self.truth = Some(PartitionTruth {
            cut_at: now,
            renewals: renewals.map(|(gap, _)| now.before(*gap)).collect(),
            candidates: nodes,
        });
    }

    fn on_write(&mut self, landscape: &Landscape, at: Time, is_late: bool) {
        let after = replicas(&kcm(landscape, &self.cluster));
        if after < self.replicas {
            self.fences.push(at);
            self.restored_at = None;
            self.is_unfounded |= !is_late && !self.has_ground(at);
        } else if after > self.replicas && !self.fences.is_empty() {
            self.restored_at = Some(at);
        }
        self.replicas = after;
    }

    fn has_ground(&self, at: Time) -> bool {
        let (Some((_, end)), Some(truth)) = (self.partition, &self.truth) else {
            return false;
        };
        let (is_near, at) = (at <= end.after(SLACK), at.min(end));
        let is_grounded =
            self.oracle.has_apparent_ground(truth, at) || self.oracle.has_expired_leases(truth, at);
        is_near && is_grounded
    }
}

fn kcm(landscape: &Landscape, cluster: &str) -> Value {
    deployment(landscape, cluster, LandscapePlan::CONTROLLERS[0])
}

fn deployment(landscape: &Landscape, cluster: &str, name: &str) -> Value {
    let seed = landscape.seed();
    seed.store().get(&DEPLOYMENTS, cluster, name).unwrap()
}

fn replicas(deployment: &Value) -> u64 {
    deployment["spec"]["replicas"].as_u64().unwrap_or(1)
}
