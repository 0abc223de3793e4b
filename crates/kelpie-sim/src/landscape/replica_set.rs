//! The replicas of a watchdog.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Landscape, ProcessLink, SimProcess};

/// The running replicas of a watchdog, which elect a leader if there are several.
#[derive(Debug)]
pub struct ReplicaSet<T> {
    running: Vec<SimProcess<T>>,
    /// The desired number of replicas.
    count: usize,
    /// The number of replicas that were ever started.
    started: usize,
    /// The names of paused replicas, in the order in which they were paused.
    paused: VecDeque<Arc<str>>,
    lease: &'static str,
}

impl<T> ReplicaSet<T> {
    /// Creates a set for `count` replicas, without any yet. `lease` is the Lease in `garden` by
    /// which they elect a leader.
    pub fn new(count: usize, lease: &'static str) -> Self {
        Self {
            running: Vec::new(),
            count,
            started: 0,
            paused: VecDeque::new(),
            lease,
        }
    }

    /// Returns the running replicas.
    pub fn running(&self) -> &[SimProcess<T>] {
        &self.running
    }

    /// Returns whether the replicas elect a leader.
    pub fn is_elected(&self) -> bool {
        self.count > 1
    }

    /// Returns the number of the next replica, if one is missing. No two replicas have the same
    /// number.
    pub fn missing(&self) -> Option<usize> {
        (self.running.len() < self.count).then_some(self.started)
    }

    /// Adds a replica that was started.
    pub fn add(&mut self, replica: SimProcess<T>) {
        self.started += 1;
        self.running.push(replica);
    }

    /// Kills the leading replica. Returns its name, or `None` if no replica runs.
    pub fn crash_leader(&mut self, landscape: &Landscape) -> Option<Arc<str>> {
        let leader = self.running.remove(self.leader(landscape)?);
        let name = leader.link.name().into();
        leader.crash();
        Some(name)
    }

    /// Pauses the leading replica with `pause`. Returns its name, or `None` if no replica runs.
    pub fn pause_leader(
        &mut self,
        landscape: &Landscape,
        pause: impl FnOnce(&ProcessLink),
    ) -> Option<Arc<str>> {
        let leader = self.running.get(self.leader(landscape)?)?;
        pause(&leader.link);
        let name: Arc<str> = leader.link.name().into();
        self.paused.push_back(Arc::clone(&name));
        Some(name)
    }

    /// Resumes the replica that was paused first. Returns its name, or `None` if it does not run
    /// any more.
    pub fn resume_first(&mut self) -> Option<Arc<str>> {
        let name = self.paused.pop_front()?;
        let is_paused = |replica: &&SimProcess<T>| replica.link.name() == &*name;
        self.running.iter().find(is_paused)?.link.resume();
        Some(name)
    }

    /// Stops all replicas. Returns the errors of those that panicked.
    pub async fn stop(self) -> Vec<String> {
        let mut defects = Vec::new();
        for replica in self.running {
            defects.extend(replica.stop().await.err().map(|error| error.to_string()));
        }
        defects
    }

    /// Returns the index of the Lease's holder, or of the first replica if that does not run.
    fn leader(&self, landscape: &Landscape) -> Option<usize> {
        let holder = landscape.lease_holder(self.lease);
        let matches = |replica: &SimProcess<_>| Some(replica.link.name()) == holder.as_deref();
        let leader = self.running.iter().position(matches);
        leader.or_else(|| (!self.running.is_empty()).then_some(0))
    }
}
