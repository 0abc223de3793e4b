use kelpie_sim::scenario::{Fault, Incident, RequestSelection};

use super::*;

/// Seconds relative to the cut.
fn at(seconds: i64) -> Time {
    Time::from_unix(1_700_000_000 + seconds, 0)
}

const GRACE: Duration = Duration::from_secs(40);

/// Five nodes, whose last renewals are spread over the four seconds before the cut.
fn truth() -> PartitionTruth {
    PartitionTruth {
        cut_at: at(0),
        renewals: (-4..=0).map(at).collect(),
        candidates: 5,
    }
}

fn period(begin: i64, end: i64, fault: Fault) -> FaultPeriod {
    FaultPeriod {
        begin: at(begin),
        end: at(end),
        incident: Incident::new(Duration::ZERO, None, fault),
    }
}

fn oracle(faults: Vec<FaultPeriod>) -> Oracle {
    Oracle::new(faults, 1, GRACE, Fraction::new(0.6).unwrap())
}

fn is_possible(faults: Vec<FaultPeriod>) -> bool {
    oracle(faults).outlook(&truth()).unwrap().is_possible()
}

const SHOOT: FaultSite = FaultSite::Shoot;
const SEED: FaultSite = FaultSite::Seed;
const END: i64 = 300;

fn latency(site: FaultSite, seconds: u64) -> Fault {
    Fault::Latency(site, Duration::from_secs(seconds))
}

fn refusal(site: FaultSite, share: f64) -> Fault {
    let status = 503;
    Fault::Refusal {
        site,
        status,
        share,
    }
}

#[test]
fn clean_partition_is_possible() {
    let outlook = oracle(Vec::new()).outlook(&truth()).unwrap();
    assert_eq!(outlook.deadline, at(36));
    assert!(outlook.is_possible());
}

#[test]
fn too_few_nodes_have_no_outlook() {
    let truth = PartitionTruth {
        renewals: vec![at(0), at(-1)],
        ..truth()
    };
    assert_eq!(oracle(Vec::new()).outlook(&truth), None);
}

#[test]
fn seed_outage_counts_by_its_phase() {
    let outage = |begin, end| is_possible(vec![period(begin, end, Fault::Outage(SEED))]);
    // There is no ground before it begins.
    assert!(!outage(-10, END));
    assert!(!outage(17, END));
    // It ends in time for a write.
    assert!(outage(-10, 29));
    assert!(!outage(-10, 33));
}

#[test]
fn last_list_before_shoot_outage_counts() {
    let outage = |begin, end| is_possible(vec![period(begin, end, Fault::Outage(SHOOT))]);
    // The nodes had been silent for long enough.
    assert!(outage(21, END));
    assert!(!outage(15, END));
    // A short outage neither makes nor hides evidence.
    assert!(outage(5, 8));
}

#[test]
fn outage_is_no_silence() {
    let oracle = oracle(vec![period(-20, 10, Fault::Outage(SHOOT))]);
    let renewals = vec![at(-21); 5];
    let truth = PartitionTruth {
        renewals,
        ..truth()
    };
    assert!(!oracle.has_weakest_ground(&truth, at(20)));
    assert!(oracle.has_weakest_ground(&truth, at(30)));
}

#[test]
fn list_proves_silence_up_to_its_request() {
    // Asked at 18, answered at 28; a write lands at once.
    assert!(is_possible(vec![period(-40, END, latency(SHOOT, 10))]));
    assert!(!is_possible(vec![period(-40, END, latency(SHOOT, 16))]));
    assert!(is_possible(vec![period(-40, END, latency(SEED, 10))]));
    assert!(!is_possible(vec![period(-40, END, latency(SEED, 16))]));
}

#[test]
fn refusals_are_weighed_by_their_odds() {
    for site in [SHOOT, SEED] {
        for (share, expected) in [(0.3, true), (0.9, false), (1.0, false)] {
            let found = is_possible(vec![period(-40, END, refusal(site, share))]);
            assert_eq!(found, expected, "{site} {share}");
        }
    }
}

#[test]
fn faults_of_other_requests_do_not_matter() {
    let mut nodes = period(-40, END, refusal(SHOOT, 1.0));
    nodes.incident.requests = RequestSelection::Nodes;
    assert!(is_possible(vec![nodes.clone()]));
    nodes.incident.requests = RequestSelection::Leases;
    assert!(!is_possible(vec![nodes]));
}

#[test]
fn blindness_takes_new_observation() {
    let stall = |begin, end| is_possible(vec![period(begin, end, Fault::Stall(SHOOT))]);
    assert!(stall(5, 20));
    // Evidence from 31 on would be too late.
    assert!(!stall(-6, 16));
    assert!(stall(-10, 10));
}

#[test]
fn pods_that_stay_make_it_impossible() {
    let slow = |seconds| Fault::SlowPods(Duration::from_secs(seconds));
    assert!(!is_possible(vec![period(-40, END, slow(30))]));
    assert!(!is_possible(vec![period(
        -40,
        END,
        Fault::ControllerManagerOutage
    )]));
    assert!(is_possible(vec![period(
        -40,
        20,
        Fault::ControllerManagerOutage
    )]));
}

#[test]
fn standby_replaces_dead_leader() {
    for fault in [Fault::Crash, Fault::Pause] {
        let faults = vec![period(0, 60, fault)];
        assert!(!is_possible(faults.clone()));
        let pair = Oracle::new(faults, 2, GRACE, Fraction::new(0.6).unwrap());
        assert!(pair.outlook(&truth()).unwrap().is_possible());
    }
}
