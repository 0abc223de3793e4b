//! The replicas of a subject during a run.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use kelpie_sim::resource::LEASES;
use kelpie_sim::{Landscape, ReplicaCommand, SimProcess};
use tokio::time::sleep;

use crate::Subject;

/// The time after which a replica must have released the state of deleted clusters.
const CLEANUP_DELAY: Duration = Duration::from_mins(1);

pub(crate) struct Replicas<S: Subject> {
    running: Vec<SimProcess<S::Exposed>>,
    /// The desired number of replicas.
    count: usize,
    /// The names of paused replicas, in the order in which they were paused.
    paused: VecDeque<String>,
    started: usize,
    rng: Rng,
}

impl<S: Subject> Replicas<S> {
    pub(crate) fn new(landscape: &Landscape, count: usize, rng: Rng) -> Self {
        let mut replicas = Self {
            running: Vec::new(),
            count,
            paused: VecDeque::new(),
            started: 0,
            rng,
        };
        (0..count).for_each(|_| replicas.start(landscape));
        replicas
    }

    fn start(&mut self, landscape: &Landscape) {
        // There may have been no replica to crash.
        if self.running.len() >= self.count {
            return;
        }
        let name = format!("kelpie-{}", self.started);
        self.started += 1;
        self.running
            .push(S::start(landscape, &name, self.count > 1));
    }

    /// Executes the commands of the scenario.
    pub(crate) fn execute_commands(&mut self, landscape: &Landscape) {
        for command in landscape.take_commands() {
            match command {
                ReplicaCommand::Start => self.start(landscape),
                ReplicaCommand::Crash => {
                    if let Some(leader) = self.leader(landscape) {
                        self.running.remove(leader).crash();
                    }
                }
                ReplicaCommand::Pause => {
                    let leader = self.leader(landscape);
                    if let Some(leader) = leader.and_then(|leader| self.running.get(leader)) {
                        if self.rng.bool() {
                            leader.link.pause();
                        } else {
                            leader.link.pause_on_next_write();
                        }
                        self.paused.push_back(leader.link.name().to_owned());
                    }
                }
                ReplicaCommand::Resume => {
                    let paused = self.paused.pop_front();
                    let matches =
                        |replica: &&SimProcess<_>| Some(replica.link.name()) == paused.as_deref();
                    let resumed = self.running.iter().filter(matches);
                    resumed.for_each(|replica| replica.link.resume());
                }
            }
        }
    }

    /// Returns the index of the Lease's holder, or the first replica.
    fn leader(&self, landscape: &Landscape) -> Option<usize> {
        let holder = holder(landscape, S::LEASE);
        let matches = |replica: &SimProcess<_>| Some(replica.link.name()) == holder.as_deref();
        let leader = self.running.iter().position(matches);
        leader.or_else(|| (!self.running.is_empty()).then_some(0))
    }

    /// Deletes all clusters. Returns what the replicas still hold of them a while later.
    pub(crate) async fn leftovers(&self, landscape: &Landscape) -> Vec<String> {
        for snapshot in landscape.snapshot() {
            landscape.delete_cluster(&snapshot.cluster);
        }
        sleep(CLEANUP_DELAY).await;
        let leftovers = self
            .running
            .iter()
            .flat_map(|replica| S::leftovers(&replica.exposed));
        leftovers.collect()
    }

    /// Stops all replicas. Returns the errors of those that panicked.
    pub(crate) async fn stop(self) -> Vec<String> {
        let mut defects = Vec::new();
        for replica in self.running {
            defects.extend(replica.stop().await.err().map(|error| error.to_string()));
        }
        defects
    }
}

/// Returns the holder of a Lease in `garden`.
pub(crate) fn holder(landscape: &Landscape, lease: &str) -> Option<String> {
    let seed = landscape.seed();
    let lease = seed.store().get(&LEASES, "garden", lease).ok()?;
    Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())
}
