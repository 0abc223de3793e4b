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

#[cfg(test)]
mod tests {
    use kelpie_core::Time;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::clock::SimClock;
    use crate::landscape::LandscapePlan;
    use crate::resource::LEASES;
    use crate::store::WriteScope;

    const LEASE: &str = "leader";

    /// A landscape with a Lease that `r1` holds, and the replicas `r0` and `r1`.
    fn pair() -> (Landscape, ReplicaSet<()>) {
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::in_process(&LandscapePlan::with_size(1, 1), &clock).unwrap();
        let seed = landscape.seed();
        let lease = json!({
            "metadata": { "name": LEASE, "namespace": "garden" },
            "spec": { "holderIdentity": "r1" },
        });
        seed.store().create(&LEASES, "garden", lease).unwrap();
        let mut replicas = ReplicaSet::new(2, LEASE);
        (0..2).for_each(|_| start(&landscape, &mut replicas));
        (landscape, replicas)
    }

    fn start(landscape: &Landscape, replicas: &mut ReplicaSet<()>) {
        let link = landscape.link(&format!("r{}", replicas.missing().unwrap()));
        let process = SimProcess::start(link, CancellationToken::new(), (), async {});
        replicas.add(process);
    }

    #[tokio::test]
    async fn crash_hits_holder_of_lease() {
        let (landscape, mut replicas) = pair();
        assert_eq!(replicas.missing(), None);
        assert_eq!(replicas.crash_leader(&landscape).as_deref(), Some("r1"));
        // Its name is not used again: the Lease still has it.
        start(&landscape, &mut replicas);
        assert_eq!(replicas.running()[1].link.name(), "r2");
        assert_eq!(replicas.crash_leader(&landscape).as_deref(), Some("r0"));
    }

    #[tokio::test]
    async fn replicas_resume_in_order() {
        let (landscape, mut replicas) = pair();
        let first = replicas.pause_leader(&landscape, ProcessLink::pause);
        let seed = landscape.seed();
        let hand_over =
            |lease: &mut serde_json::Value| lease["spec"]["holderIdentity"] = json!("r0");
        seed.store()
            .modify(&LEASES, "garden", LEASE, WriteScope::Object, hand_over)
            .unwrap();
        let second = replicas.pause_leader(&landscape, ProcessLink::pause);
        assert_eq!(
            (first.as_deref(), second.as_deref()),
            (Some("r1"), Some("r0"))
        );
        assert_eq!(replicas.resume_first(), first);
        // A replica that crashed while it was paused does not resume.
        assert_eq!(replicas.crash_leader(&landscape), second);
        assert_eq!(replicas.resume_first(), None);
    }
}
