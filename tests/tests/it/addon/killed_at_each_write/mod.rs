//! The operator and the status controller are killed at any of their writes: before the request
//! reaches the API server, or after the API server has handled it and before the response arrives.
//! Afterwards the objects and the status are the same as without a crash, and a watch sees the same
//! transitions.

mod fixture;
mod processes;

use futures_util::future::join_all;
use kelpie_e2e::landscape::rest;
use serde_json::{Value, json};

use self::fixture::AddonNamespace;
use self::processes::{AddonProcess, Crash, LostMessage, Processes};
use super::fixture::operator::{PLATFORM_COLLECTOR, UWL_COLLECTOR};
use super::fixture::status_history::StatusHistory;
use super::fixture::{AddonCluster, SpokeFixture, crd_yaml};

/// Result of one run through the addon's lifecycle.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// Snapshot after each phase.
    snapshots: Vec<Value>,
    /// Standard conditions that were True, one after the other.
    transitions: Vec<String>,
    /// True if a process was killed. False if it made too few writes for that.
    crashed: bool,
}

/// Runs through all phases: startup, a new interval, removal of user workloads, and disabled
/// metrics.
async fn run_lifecycle(
    spoke: &AddonCluster,
    crash: Option<Crash>,
    reference: Option<&Outcome>,
) -> Outcome {
    let name = match crash {
        None => "no-crash".to_owned(),
        Some(Crash { process, at, lost }) => format!("{process:?}-{at}-{lost:?}").to_lowercase(),
    };
    let namespace = AddonNamespace::new(spoke, name).await;
    let history = StatusHistory::start(&spoke.client, &namespace.name).await;
    let mut processes = Processes::new(&namespace, crash).await;
    let mut outcome = Outcome::default();

    processes
        .run_phase(&mut outcome, reference, "Progressing")
        .await;
    namespace.report_success().await;
    processes
        .run_phase(&mut outcome, reference, "Available")
        .await;

    namespace.patch_spec(&json!({ "interval": 77 })).await;
    processes
        .run_phase(&mut outcome, reference, "Progressing")
        .await;
    namespace.report_success().await;
    processes
        .run_phase(&mut outcome, reference, "Available")
        .await;

    let uwl = namespace.collection_path("apis/apps/v1", "statefulsets/prometheus-uwl");
    rest::delete(&spoke.client, &uwl).await.unwrap();
    let is_gone = async || {
        namespace
            .owned_objects("apis/apps/v1", "deployments")
            .await
            .len()
            == 1
    };
    processes.until("one collector", is_gone).await;
    processes
        .run_phase(&mut outcome, reference, "Available")
        .await;

    namespace
        .patch_spec(&json!({ "enableMetrics": false }))
        .await;
    processes
        .run_phase(&mut outcome, reference, "Disabled")
        .await;

    let last = namespace.addon().await;
    history.until_recorded(&last).await;
    outcome.transitions = history.checked_transitions();
    outcome.crashed = processes.crashed;
    outcome
}

async fn spoke_with_crd() -> SpokeFixture {
    let fixture = SpokeFixture::without_crd().await;
    fixture.spoke.install_crd(&crd_yaml().await).await;
    fixture
}

/// Returns the outcome without a crash. Asserts that each snapshot shows the change of its phase,
/// because comparing the other runs with it would prove nothing otherwise.
async fn run_without_crash(spoke: &AddonCluster) -> Outcome {
    let reference = run_lifecycle(spoke, None, None).await;
    let expected = [
        "-",
        "Progressing",
        "Available",
        "Progressing",
        "Available",
        "Disabled",
    ];
    assert_eq!(reference.transitions, expected);
    let text: Vec<String> = reference.snapshots.iter().map(Value::to_string).collect();
    for (phase, words) in [
        (0, [PLATFORM_COLLECTOR, UWL_COLLECTOR, "UpdateSuccessful"]),
        (1, [PLATFORM_COLLECTOR, UWL_COLLECTOR, "ForwardSuccessful"]),
        (2, ["--interval=77s", UWL_COLLECTOR, "UpdateSuccessful"]),
        (3, ["--interval=77s", UWL_COLLECTOR, "ForwardSuccessful"]),
        (
            4,
            ["--interval=77s", PLATFORM_COLLECTOR, "ForwardSuccessful"],
        ),
        (5, ["\"replicas\":0", PLATFORM_COLLECTOR, "DisabledMetrics"]),
    ] {
        for word in words {
            assert!(
                text[phase].contains(word),
                "{word} in phase {phase}: {}",
                text[phase]
            );
        }
    }
    assert!(!text[4].contains(UWL_COLLECTOR), "{}", text[4]);
    reference
}

/// Runs the lifecycle with a crash at each of these writes, a few runs at a time, until a process
/// makes fewer writes. Returns the number of crashes.
async fn crash_at_writes(
    spoke: &AddonCluster,
    reference: &Outcome,
    process: AddonProcess,
    crashes: impl Iterator<Item = (usize, LostMessage)>,
) -> usize {
    let mut crashes = crashes
        .map(|(at, lost)| Crash { process, at, lost })
        .peekable();
    let mut crashed = 0;
    while crashes.peek().is_some() {
        let batch: Vec<Crash> = crashes.by_ref().take(3).collect();
        let runs = batch
            .iter()
            .map(|crash| run_lifecycle(spoke, Some(*crash), Some(reference)));
        let outcomes = join_all(runs).await;
        for (crash, outcome) in batch.iter().zip(&outcomes) {
            println!(
                "{crash}: {}",
                if outcome.crashed {
                    "crashed"
                } else {
                    "did not crash"
                }
            );
            assert_eq!(outcome.snapshots, reference.snapshots, "{crash}");
            assert_eq!(outcome.transitions, reference.transitions, "{crash}");
        }
        let count = outcomes.iter().filter(|outcome| outcome.crashed).count();
        crashed += count;
        if count < batch.len() {
            break;
        }
    }
    crashed
}

/// Returns every `step`-th write, with the request and the response lost in turn.
fn alternating(step: usize) -> impl Iterator<Item = (usize, LostMessage)> {
    let lost_messages = [LostMessage::Request, LostMessage::Response]
        .into_iter()
        .cycle();
    (1..).step_by(step).zip(lost_messages)
}

#[tokio::test]
async fn crash_at_some_writes_changes_no_outcome() {
    let fixture = spoke_with_crd().await;
    let reference = run_without_crash(&fixture.spoke).await;
    let crashed = crash_at_writes(
        &fixture.spoke,
        &reference,
        AddonProcess::Operator,
        alternating(6),
    )
    .await;
    assert!(crashed >= 3, "{crashed}");
    let crashed = crash_at_writes(
        &fixture.spoke,
        &reference,
        AddonProcess::Status,
        alternating(3),
    )
    .await;
    assert!(crashed >= 2, "{crashed}");
}

#[tokio::test]
#[ignore = "takes minutes"]
async fn crash_at_any_write_changes_no_outcome() {
    let fixture = spoke_with_crd().await;
    let reference = run_without_crash(&fixture.spoke).await;
    for process in [AddonProcess::Operator, AddonProcess::Status] {
        for lost in [LostMessage::Request, LostMessage::Response] {
            let all = (1..).zip(std::iter::repeat(lost));
            let crashed = crash_at_writes(&fixture.spoke, &reference, process, all).await;
            println!("{process:?}, {lost:?}: {crashed} crashes");
            assert!(crashed >= 4, "{crashed}");
        }
    }
}
