//! A simulated landscape with an etcd outage.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{Fault, Incident, Scenario};
use kelpie_sim::{Landscape, LandscapePlan, PodTransition, SimClock, SimEvent, SimEventKind};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The start, duration and end of the outage. At its end, a crashed pod waits five minutes for its
/// restart.
pub(crate) const ETCD_DOWN_AT: Duration = Duration::from_mins(2);
pub(crate) const ETCD_DOWN_FOR: Duration = Duration::from_mins(6);
pub(crate) const ETCD_UP_AT: Duration = Duration::from_mins(8);

/// A transition of a cluster's API server, with its time in seconds since the start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TransitionAt {
    pub(crate) at: f64,
    pub(crate) cluster: String,
    pub(crate) transition: PodTransition,
}

/// A running landscape. It stops on drop.
pub(crate) struct Fixture {
    pub(crate) landscape: Landscape,
    transitions: Arc<Mutex<Vec<TransitionAt>>>,
    driver: JoinHandle<()>,
}

impl Fixture {
    /// Starts a healthy landscape.
    pub(crate) fn new(clusters: usize) -> Self {
        fastrand::seed(1);
        let clock = SimClock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape =
            Landscape::in_process(&LandscapePlan::with_size(clusters, 2), &clock).unwrap();
        let transitions = Arc::new(Mutex::new(Vec::new()));
        let (start, recorded) = (landscape.now(), Arc::clone(&transitions));
        landscape.observe(move |event: &SimEvent| {
            if let SimEventKind::ApiServerPod {
                cluster,
                transition,
            } = &event.kind
            {
                recorded.lock().unwrap().push(TransitionAt {
                    at: event.at.since(start).as_secs_f64(),
                    cluster: cluster.to_string(),
                    transition: *transition,
                });
            }
        });
        let driven = landscape.clone();
        let driver = tokio::spawn(async move { driven.run().await });
        Self {
            landscape,
            transitions,
            driver,
        }
    }

    /// Schedules an etcd outage in all clusters, and the `extra` incidents.
    pub(crate) fn lose_etcd(&self, extra: impl IntoIterator<Item = Incident>) {
        let outage = Incident::new(ETCD_DOWN_AT, Some(ETCD_DOWN_FOR), Fault::EtcdOutage);
        self.landscape.play(&Scenario {
            incidents: extra.into_iter().chain([outage]).collect(),
            ..Scenario::default()
        });
    }

    /// Returns the transitions of a cluster's API server from `since` on.
    pub(crate) fn transitions_since(&self, since: Duration, cluster: usize) -> Vec<TransitionAt> {
        let name = LandscapePlan::default().cluster_name(cluster);
        let transitions = self.transitions.lock().unwrap();
        let matches = |transition: &&TransitionAt| {
            transition.cluster == name && transition.at >= since.as_secs_f64()
        };
        transitions.iter().filter(matches).cloned().collect()
    }

    /// Returns the seconds between etcd's return and the last start of the cluster's API server.
    pub(crate) fn recovery_seconds(&self, cluster: usize) -> f64 {
        let transitions = self.transitions_since(ETCD_UP_AT, cluster);
        let last = transitions.last().unwrap();
        assert_eq!(last.transition, PodTransition::Started, "{transitions:?}");
        last.at - ETCD_UP_AT.as_secs_f64()
    }

    /// Returns how often the cluster's pod was deleted since etcd's return.
    pub(crate) fn deletions(&self, cluster: usize) -> usize {
        let transitions = self.transitions_since(ETCD_UP_AT, cluster);
        transitions
            .iter()
            .filter(|transition| transition.transition == PodTransition::Replaced)
            .count()
    }

    /// Returns the times at which pods of any cluster were deleted, in seconds.
    pub(crate) fn deleted_at(&self) -> Vec<f64> {
        let transitions = self.transitions.lock().unwrap();
        let deleted = transitions
            .iter()
            .filter(|transition| transition.transition == PodTransition::Replaced);
        deleted.map(|transition| transition.at).collect()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Waits until `then` after `start`.
pub(crate) async fn advance_to(fixture: &Fixture, start: Time, then: Duration) {
    let elapsed = fixture.landscape.now().since(start);
    sleep(then.saturating_sub(elapsed)).await;
}
