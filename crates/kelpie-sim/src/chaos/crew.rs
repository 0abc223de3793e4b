//! The replicas of a subject, and who looks after them.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::sleep;

use super::Subject;
use crate::landscape::{Landscape, Order, Process};
use crate::resource::LEASES;

/// What replicas keep of clusters that are gone has gone by then.
const FAREWELL: Duration = Duration::from_mins(1);

pub(super) struct Crew<S: Subject> {
    replicas: Vec<Process<S::Shows>>,
    /// How many there should be.
    count: usize,
    /// Names, the first that was paused first.
    paused: VecDeque<String>,
    started: usize,
    rng: Rng,
}

impl<S: Subject> Crew<S> {
    pub(super) fn new(landscape: &Landscape, count: usize, rng: Rng) -> Self {
        let mut crew = Self {
            replicas: Vec::new(),
            count,
            paused: VecDeque::new(),
            started: 0,
            rng,
        };
        (0..count).for_each(|_| crew.start(landscape));
        crew
    }

    fn start(&mut self, landscape: &Landscape) {
        // One that was to crash may not have been there.
        if self.replicas.len() >= self.count {
            return;
        }
        let name = format!("kelpie-{}", self.started);
        self.started += 1;
        self.replicas
            .push(S::start(landscape, &name, self.count > 1));
    }

    /// Does what the script says.
    pub(super) fn follow(&mut self, landscape: &Landscape) {
        for order in landscape.take_orders() {
            match order {
                Order::Start => self.start(landscape),
                Order::Crash => {
                    if let Some(leader) = self.leader(landscape) {
                        self.replicas.remove(leader).crash();
                    }
                }
                Order::Pause => {
                    let leader = self.leader(landscape);
                    if let Some(leader) = leader.and_then(|leader| self.replicas.get(leader)) {
                        if self.rng.bool() {
                            leader.pause();
                        } else {
                            leader.pause_in_a_write();
                        }
                        self.paused.push_back(leader.name().to_owned());
                    }
                }
                Order::Resume => {
                    let paused = self.paused.pop_front();
                    let is_it = |replica: &&Process<_>| Some(replica.name()) == paused.as_deref();
                    self.replicas.iter().filter(is_it).for_each(Process::resume);
                }
            }
        }
    }

    /// Who leads, by the Lease; else the first.
    fn leader(&self, landscape: &Landscape) -> Option<usize> {
        let holder = holder(landscape, S::LEASE);
        let is_it = |replica: &Process<_>| Some(replica.name()) == holder.as_deref();
        let leader = self.replicas.iter().position(is_it);
        leader.or_else(|| (!self.replicas.is_empty()).then_some(0))
    }

    /// What is left of clusters that are gone; they go now.
    pub(super) async fn leftovers(&self, landscape: &Landscape) -> Vec<String> {
        for row in landscape.fleet() {
            landscape.forget(&row.cluster);
        }
        sleep(FAREWELL).await;
        let left = self
            .replicas
            .iter()
            .flat_map(|one| S::leftovers(&one.shows));
        left.collect()
    }

    /// All end; gives those that a defect had ended.
    pub(super) async fn end(self) -> Vec<String> {
        let mut defects = Vec::new();
        for replica in self.replicas {
            defects.extend(replica.end().await.err().map(|error| error.to_string()));
        }
        defects
    }
}

/// Who leads, by the Lease.
pub(super) fn holder(landscape: &Landscape, lease: &str) -> Option<String> {
    let seed = landscape.seed();
    let lease = seed.store().get(&LEASES, "garden", lease).ok()?;
    Some(lease["spec"]["holderIdentity"].as_str()?.to_owned())
}
