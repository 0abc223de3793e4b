//! The replicas of a subject during a run.

use std::time::Duration;

use fastrand::Rng;
use kelpie_sim::{Landscape, ProcessLink, ReplicaCommand, ReplicaSet};
use tokio::time::sleep;

use crate::Subject;

/// The time after which a replica must have released the state of deleted clusters.
const CLEANUP_DELAY: Duration = Duration::from_mins(1);

pub(crate) struct Replicas<S: Subject> {
    set: ReplicaSet<S::Exposed>,
    rng: Rng,
}

impl<S: Subject> Replicas<S> {
    pub(crate) fn new(landscape: &Landscape, count: usize, rng: Rng) -> Self {
        let set = ReplicaSet::new(count, S::LEASE);
        let mut replicas = Self { set, rng };
        (0..count).for_each(|_| replicas.start(landscape));
        replicas
    }

    fn start(&mut self, landscape: &Landscape) {
        // There may have been no replica to crash.
        if let Some(number) = self.set.missing() {
            let name = format!("kelpie-{number}");
            let replica = S::start(landscape, &name, self.set.is_elected());
            self.set.add(replica);
        }
    }

    /// Executes the commands of the scenario.
    pub(crate) fn execute_commands(&mut self, landscape: &Landscape) {
        for command in landscape.take_commands() {
            match command {
                ReplicaCommand::Start => self.start(landscape),
                ReplicaCommand::Crash => {
                    self.set.crash_leader(landscape);
                }
                ReplicaCommand::Pause => {
                    let rng = &mut self.rng;
                    self.set.pause_leader(landscape, |link: &ProcessLink| {
                        if rng.bool() {
                            link.pause();
                        } else {
                            link.pause_on_next_write();
                        }
                    });
                }
                ReplicaCommand::Resume => {
                    self.set.resume_first();
                }
            }
        }
    }

    /// Deletes all clusters. Returns what the replicas still hold of them a while later.
    pub(crate) async fn leftovers(&self, landscape: &Landscape) -> Vec<String> {
        for snapshot in landscape.snapshot() {
            landscape.delete_cluster(&snapshot.cluster);
        }
        sleep(CLEANUP_DELAY).await;
        let replicas = self.set.running().iter();
        let leftovers = replicas.flat_map(|replica| S::leftovers(&replica.exposed));
        leftovers.collect()
    }

    /// Stops all replicas. Returns the errors of those that panicked.
    pub(crate) async fn stop(self) -> Vec<String> {
        self.set.stop().await
    }
}
