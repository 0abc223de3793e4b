//! Scenario files: what they say, and what is wrong with them.

use std::time::Duration;

use kelpie_config::scenario::{Clusters, Fault, Incident, Nodes, Scenario, Site};

const MINUTE: Duration = Duration::from_mins(1);

/// A scenario with these lines in its one incident.
fn incident(lines: &str) -> Result<Incident, String> {
    let yaml = format!(
        "length: 10m\nincidents:\n- at: 1m\n  {}\n",
        lines.replace("; ", "\n  ")
    );
    match Scenario::parse(yaml.as_bytes()) {
        Ok(parsed) => Ok(parsed.value.incidents[0].clone()),
        Err(report) => Err(report.to_string()),
    }
}

#[test]
fn every_fault_can_be_written() {
    let rows = [
        ("fault: partition", Fault::Partition(Nodes::All)),
        (
            "fault: partition; nodes: 0.6",
            Fault::Partition(Nodes::Share(0.6)),
        ),
        (
            "fault: partition; zone: 2",
            Fault::Partition(Nodes::Zone(2)),
        ),
        ("fault: outage", Fault::Outage(Site::Shoot)),
        ("fault: outage; site: seed", Fault::Outage(Site::Seed)),
        (
            "fault: latency; by: 2s",
            Fault::Latency(Site::Shoot, Duration::from_secs(2)),
        ),
        ("fault: stall; site: seed", Fault::Stall(Site::Seed)),
        (
            "fault: refusal; status: 429; share: 0.5",
            Fault::Refusal {
                site: Site::Shoot,
                status: 429,
                share: 0.5,
            },
        ),
        ("fault: watch-drop", Fault::WatchDrop),
        (
            "fault: stale-reads; site: seed",
            Fault::StaleReads(Site::Seed),
        ),
        (
            "fault: node-clock; behind: 1h",
            Fault::NodeClock(Nodes::All, -3_600_000),
        ),
        (
            "fault: watchdog-clock; ahead: 5s",
            Fault::WatchdogClock(5_000),
        ),
        ("fault: rotation", Fault::Rotation),
        (
            "fault: slow-pods; by: 20s",
            Fault::SlowPods(Duration::from_secs(20)),
        ),
        (
            "fault: scale; controller: cluster-autoscaler; replicas: 0",
            Fault::Scale {
                controller: "cluster-autoscaler".into(),
                replicas: 0,
            },
        ),
        ("fault: etcd-outage", Fault::EtcdOutage),
        ("fault: crash", Fault::Crash),
        ("fault: pause", Fault::Pause),
    ];
    for (lines, fault) in rows {
        assert_eq!(
            incident(lines),
            Ok(Incident::new(MINUTE, None, fault)),
            "{lines}"
        );
    }
}

#[test]
fn an_incident_has_a_length_and_clusters() {
    let found = incident("fault: crash; lasts: 2m; clusters: 0.5").unwrap();
    assert_eq!(found.lasts, Some(2 * MINUTE));
    assert_eq!(found.clusters, Clusters::Share(0.5));
    let found = incident("fault: crash; only: [0, 3]").unwrap();
    assert_eq!(found.clusters, Clusters::Numbers(vec![0, 3]));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let rows = [
        (
            "fault: partiton",
            "4:10: incidents[0].fault: partiton is not allowed; expected one of partition",
        ),
        (
            "fault: partition; status: 429",
            "expected nothing: the fault partition has no `status`",
        ),
        ("fault: latency", "incidents[0].by: missing"),
        (
            "fault: refusal; status: 404",
            "expected one of 401, 403, 429, 500, 503, 504",
        ),
        (
            "fault: partition; nodes: 0.5; zone: 1",
            "either a share of the nodes, or a zone",
        ),
        (
            "fault: crash; only: [1]; clusters: 0.5",
            "either a share of the clusters, or `only` some",
        ),
        (
            "fault: watchdog-clock; ahead: 1s; behind: 1s",
            "either `ahead` or `behind`",
        ),
        ("fault: crash; cluster: 1", "did you mean `clusters`?"),
    ];
    for (lines, expected) in rows {
        let report = incident(lines).unwrap_err();
        assert!(report.contains(expected), "{lines}: {report}");
    }
    let late = "length: 1m\nincidents:\n- {at: 1m, fault: crash}\n";
    let report = Scenario::parse(late.as_bytes()).unwrap_err().to_string();
    assert!(
        report.contains("a time before the end of the scenario"),
        "{report}"
    );
    let report = Scenario::parse(b"{}").unwrap_err().to_string();
    assert!(
        report.contains("length: missing") && report.contains("incidents: missing"),
        "{report}"
    );
}
