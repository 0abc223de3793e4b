//! Landscapes whose clusters are cut off at different phases of one second fault.

use std::fmt::Write;
use std::time::Duration;

use fastrand::Rng;
use kelpie_chaos::ChaosRun;
use kelpie_sim::scenario::{ClusterSelection, Fault, Incident, NodeSelection, Scenario};
use kelpie_sim::{LandscapePlan, Platform};

use super::second_fault::SecondFault;

/// The number of clusters that are cut off in a landscape. One more is not.
pub(super) const PLAYS_PER_LANDSCAPE: usize = 6;

/// The second of the first cut, which is 45 s before the second fault, and that of the fault.
const FIRST_CUT: u64 = 135;
const FAULT_AT: u64 = FIRST_CUT + 45;

/// The last cut is 40 s after the second fault.
const CUTS: std::ops::RangeInclusive<u64> = FIRST_CUT..=FAULT_AT + 40;

/// The second in which everything is over.
const END: u64 = FAULT_AT + 40 + 150 + 40;

/// The length of the partitions.
const PARTITION: Duration = Duration::from_secs(150);

/// A landscape with a second fault.
pub(super) struct LandscapePlay {
    pub(super) fault: &'static SecondFault,
    pub(super) rng_seed: u64,
    /// The clusters are guarded, too.
    pub(super) is_guarded: bool,
    /// The platform of the landscape.
    pub(super) platform: Platform,
}

impl LandscapePlay {
    /// Draws the faults and their phases. Sizes and durations take turns, so that 30 landscapes
    /// have all combinations.
    pub(super) fn chaos_run(&self) -> ChaosRun {
        let mut rng = Rng::with_seed(self.rng_seed);
        let turn = usize::try_from(self.rng_seed % 30).unwrap_or_default();
        let nodes = [5, 2, 20][turn % 3];
        let grace = [40, 50][turn % 2];
        let lasts = [10, 60, 4, END - FAULT_AT, 1][turn % 5];
        let mut incidents: Vec<Incident> = (0..PLAYS_PER_LANDSCAPE)
            .map(|cluster| {
                let cut_at = seconds(rng.u64(CUTS));
                let partition = Fault::Partition(NodeSelection::All);
                Incident::new(cut_at, Some(PARTITION), partition)
                    .in_clusters(ClusterSelection::Numbers(vec![cluster]))
            })
            .collect();
        let faults = (self.fault.draw)(&mut rng).into_iter();
        incidents.extend(faults.map(|(fault, requests)| {
            Incident::new(seconds(FAULT_AT), Some(seconds(lasts)), fault).for_requests(requests)
        }));
        ChaosRun {
            plan: LandscapePlan {
                rng_seed: self.rng_seed,
                grace_period: seconds(grace),
                platform: self.platform,
                ..LandscapePlan::with_size(PLAYS_PER_LANDSCAPE + 1, nodes)
            },
            scenario: Scenario {
                length: seconds(END),
                incidents,
                ..Scenario::default()
            },
            watchdogs: self.fault.watchdogs,
        }
    }

    /// Describes the landscape and its faults.
    pub(super) fn describe(&self) -> String {
        let run = self.chaos_run();
        let mut text = format!(
            "{}: landscape {}, {} nodes, G {:?}",
            self.fault.name, self.rng_seed, run.plan.nodes, run.plan.grace_period
        );
        for incident in &run.scenario.incidents {
            let _ = write!(text, "\n  {incident}");
        }
        text
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
