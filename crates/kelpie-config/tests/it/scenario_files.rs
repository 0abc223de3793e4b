//! Valid and invalid scenario files.

use std::time::Duration;

use kelpie_config::scenario::{
    ClusterSelection, Fault, FaultSite, Incident, NodeSelection, RequestSelection, Scenario,
};

const MINUTE: Duration = Duration::from_mins(1);

/// Parses a scenario with one incident of these lines, which `; ` separates.
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
fn every_fault_can_be_parsed() {
    let rows = [
        ("fault: partition", Fault::Partition(NodeSelection::All)),
        (
            "fault: partition; nodes: 0.6",
            Fault::Partition(NodeSelection::Share(0.6)),
        ),
        (
            "fault: partition; zone: 2",
            Fault::Partition(NodeSelection::Zone(2)),
        ),
        ("fault: outage", Fault::Outage(FaultSite::Shoot)),
        ("fault: outage; site: seed", Fault::Outage(FaultSite::Seed)),
        (
            "fault: latency; by: 2s",
            Fault::Latency(FaultSite::Shoot, Duration::from_secs(2)),
        ),
        ("fault: stall; site: seed", Fault::Stall(FaultSite::Seed)),
        (
            "fault: refusal; status: 429; share: 0.5",
            Fault::Refusal {
                site: FaultSite::Shoot,
                status: 429,
                share: 0.5,
            },
        ),
        ("fault: watch-drop", Fault::WatchDrop),
        (
            "fault: body-cut",
            Fault::BodyCut {
                site: FaultSite::Shoot,
                resets: false,
            },
        ),
        (
            "fault: body-cut; site: seed; connection: reset",
            Fault::BodyCut {
                site: FaultSite::Seed,
                resets: true,
            },
        ),
        (
            "fault: stale-reads; site: seed",
            Fault::StaleReads {
                site: FaultSite::Seed,
                share: 1.0,
            },
        ),
        (
            "fault: stale-reads; share: 0.3",
            Fault::StaleReads {
                site: FaultSite::Shoot,
                share: 0.3,
            },
        ),
        (
            "fault: node-clock; behind: 1h",
            Fault::NodeClock(NodeSelection::All, -3_600_000),
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
        ("fault: webhook-outage", Fault::WebhookOutage),
        ("fault: webhook-timeout", Fault::WebhookTimeout),
        (
            "fault: controller-manager-outage",
            Fault::ControllerManagerOutage,
        ),
        ("fault: dns", Fault::Dns),
        ("fault: cpu-starvation", Fault::CpuStarvation),
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
fn incidents_have_length_and_clusters() {
    let found = incident("fault: crash; lasts: 2m; clusters: 0.5").unwrap();
    assert_eq!(found.lasts, Some(2 * MINUTE));
    assert_eq!(found.clusters, ClusterSelection::Share(0.5));
    let found = incident("fault: crash; only: [0, 3]").unwrap();
    assert_eq!(found.clusters, ClusterSelection::Numbers(vec![0, 3]));
    let found = incident("fault: crash; lasts: 0s").unwrap();
    assert_eq!(found.lasts, Some(Duration::ZERO));
}

#[test]
fn replicas_are_one_to_three() {
    let parse = |replicas: &str| {
        let yaml = format!("{replicas}length: 1m\nincidents: [{{at: 0s, fault: crash}}]\n");
        Scenario::parse(yaml.as_bytes()).map(|parsed| parsed.value.replicas)
    };
    assert_eq!(parse("").unwrap(), None);
    assert_eq!(parse("replicas: 2\n").unwrap(), Some(2));
    for wrong in ["0", "4", "two"] {
        let report = parse(&format!("replicas: {wrong}\n")).unwrap_err();
        assert!(report.to_string().contains("1:11: replicas: "), "{report}");
    }
}

#[test]
fn faults_of_requests_can_be_limited() {
    for (name, expected) in [
        ("all", RequestSelection::All),
        ("leases", RequestSelection::Leases),
        ("nodes", RequestSelection::Nodes),
        ("version", RequestSelection::Version),
    ] {
        for fault in ["latency; by: 2s", "stall", "refusal; status: 503"] {
            let lines = format!("fault: {fault}; requests: {name}");
            let found = incident(&lines).unwrap();
            assert_eq!(found.requests, expected, "{lines}");
        }
    }
    let found = incident("fault: stall; requests: leases").unwrap();
    assert!(found.to_string().contains("leases"), "{found}");
    let report = incident("fault: outage; requests: nodes").unwrap_err();
    assert!(
        report.contains("the fault outage does not accept `requests`"),
        "{report}"
    );
}

#[test]
fn problems_have_their_position() {
    let rows = [
        (
            "fault: partiton",
            "4:10: incidents[0].fault: partiton is not allowed; expected one of partition",
        ),
        (
            "fault: partition; status: 429",
            "expected no value, because the fault partition does not accept `status`",
        ),
        ("fault: latency", "incidents[0].by: missing"),
        (
            "fault: refusal; status: 404",
            "expected one of 401, 403, 429, 500, 503, 504",
        ),
        (
            "fault: partition; nodes: 0.5; zone: 1",
            "either `nodes` or `zone`",
        ),
        (
            "fault: crash; only: [1]; clusters: 0.5",
            "either `clusters` or `only`",
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
