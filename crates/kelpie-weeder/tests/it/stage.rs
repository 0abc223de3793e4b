//! A simulated landscape whose etcds go and come.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_core::Time;
use kelpie_sim::scenario::{Fault, Incident, Scenario};
use kelpie_sim::{Clock, Happening, Landscape, Plan, Turn, What};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// When etcd goes, and for how long: by then a pod waits for five minutes before it starts again.
pub(crate) const GONE: Duration = Duration::from_mins(2);
pub(crate) const FOR: Duration = Duration::from_mins(6);
pub(crate) const BACK: Duration = Duration::from_mins(8);

/// What became of a cluster's API server, and when, in seconds from the beginning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) at: f64,
    pub(crate) cluster: String,
    pub(crate) turn: Turn,
}

/// A landscape that runs. It ends when this is dropped.
pub(crate) struct Stage {
    pub(crate) landscape: Landscape,
    told: Arc<Mutex<Vec<Told>>>,
    driver: JoinHandle<()>,
}

impl Stage {
    /// Everything is well.
    pub(crate) fn new(clusters: usize) -> Self {
        fastrand::seed(1);
        let clock = Clock::starting_at(Time::from_unix(1_700_000_000, 0));
        let landscape = Landscape::inside(&Plan::of(clusters, 2), &clock).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let (start, telling) = (landscape.now(), Arc::clone(&told));
        landscape.observe(move |happening: &Happening| {
            if let What::Dependant { cluster, turn } = &happening.what {
                telling.lock().unwrap().push(Told {
                    at: happening.at.since(start).as_secs_f64(),
                    cluster: cluster.to_string(),
                    turn: *turn,
                });
            }
        });
        let driving = landscape.clone();
        let driver = tokio::spawn(async move { driving.run().await });
        Self {
            landscape,
            told,
            driver,
        }
    }

    /// The etcds of all clusters go and come back, and this happens beside it.
    pub(crate) fn lose_etcd(&self, beside: impl IntoIterator<Item = Incident>) {
        let outage = Incident::new(GONE, Some(FOR), Fault::EtcdOutage);
        self.landscape.play(&Scenario {
            incidents: beside.into_iter().chain([outage]).collect(),
            ..Scenario::default()
        });
    }

    /// What was told of a cluster's API server since etcd is back.
    pub(crate) fn told_since(&self, back: Duration, cluster: usize) -> Vec<Told> {
        let name = Plan::default().cluster_name(cluster);
        let told = self.told.lock().unwrap();
        let is_meant = |one: &&Told| one.cluster == name && one.at >= back.as_secs_f64();
        told.iter().filter(is_meant).cloned().collect()
    }

    /// Seconds from the return of etcd to the last start of the cluster's API server.
    pub(crate) fn wait_of(&self, cluster: usize) -> f64 {
        let told = self.told_since(BACK, cluster);
        let last = told.last().unwrap();
        assert_eq!(last.turn, Turn::Started, "{told:?}");
        last.at - BACK.as_secs_f64()
    }

    /// How often the cluster's pod was deleted since etcd is back.
    pub(crate) fn deletions(&self, cluster: usize) -> usize {
        let told = self.told_since(BACK, cluster);
        told.iter().filter(|one| one.turn == Turn::Replaced).count()
    }

    /// The instants at which pods of any cluster were deleted, in seconds.
    pub(crate) fn deleted_at(&self) -> Vec<f64> {
        let told = self.told.lock().unwrap();
        let deleted = told.iter().filter(|one| one.turn == Turn::Replaced);
        deleted.map(|one| one.at).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Time goes by until so long after the beginning.
pub(crate) async fn until(stage: &Stage, start: Time, then: Duration) {
    let gone = stage.landscape.now().since(start);
    sleep(then.saturating_sub(gone)).await;
}
