//! The operator and the status controller are killed at any of their writes: before the request
//! reaches the API server, or after the API server has handled it and before the response arrives.
//! Afterwards the objects and the status are the same as without a crash, and a watch sees the same
//! transitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kelpie_core::addon::{AddonComponent, CollectorReport};
use kelpie_sim::resource::{DEPLOYMENTS, SERVICES};
use kelpie_sim::server::{FaultInjection, ResponseDelivery};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fixture::*;

/// The time without a change after which a phase counts as complete. No pause between two writes is
/// as long.
const SETTLE_TIME: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The message that never arrives because the process is killed.
#[derive(Clone, Copy, Debug)]
enum LostMessage {
    Request,
    Response,
}

/// A crash of one process at one of its writes.
#[derive(Clone, Copy, Debug)]
struct Crash {
    /// The process by its user: `operator` or `status`.
    process: &'static str,
    /// The number of the write, starting at 1.
    at: usize,
    lost: LostMessage,
}

/// The result of one run through the addon's lifecycle.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    /// A snapshot after each phase.
    snapshots: Vec<Value>,
    /// The standard conditions that were True, one after the other.
    transitions: Vec<String>,
}

/// The running processes and the crash that is still to come.
struct Processes {
    spoke: ApiServer,
    running: [(&'static str, Process); 2],
    crash: Option<(Crash, Arc<AtomicBool>)>,
}

impl Processes {
    fn start(crash: Option<Crash>) -> Self {
        let Fixture { spoke, .. } = Fixture::without_addons();
        spoke.create_inputs();
        spoke.create_uwl_prometheus();
        let crash = crash.map(|crash| {
            let is_due = Arc::<AtomicBool>::default();
            let (due, mut writes) = (Arc::clone(&is_due), 0);
            spoke.set_rule(move |request| {
                let counts = is_write(request) && request.user.name == crash.process;
                writes += usize::from(counts);
                if !counts || writes != crash.at {
                    return FaultInjection::default();
                }
                due.store(true, Ordering::Relaxed);
                match crash.lost {
                    LostMessage::Request => FaultInjection::hang(),
                    LostMessage::Response => FaultInjection {
                        delivery: ResponseDelivery::Withheld,
                        ..FaultInjection::default()
                    },
                }
            });
            (crash, is_due)
        });
        Self {
            running: ["operator", "status"].map(|name| (name, start_process(&spoke, name))),
            spoke,
            crash,
        }
    }

    /// Kills the process once its message is lost, and starts it again.
    fn crash_if_due(&mut self) {
        let is_due = |crash: &mut (Crash, Arc<AtomicBool>)| crash.1.load(Ordering::Relaxed);
        let Some((crash, _)) = self.crash.take_if(is_due) else {
            return;
        };
        for (name, process) in &mut self.running {
            if *name == crash.process {
                let new = start_process(&self.spoke, name);
                std::mem::replace(process, new).kill();
            }
        }
    }

    /// Waits until this condition is True and nothing changes any more.
    async fn settle(&mut self, outcome: &mut Outcome, kind: &str) {
        let give_up = Instant::now() + Duration::from_mins(5);
        let (mut version, mut since) = (0, Instant::now());
        let mut is_true = false;
        while !(is_true && since.elapsed() >= SETTLE_TIME) {
            sleep(POLL_INTERVAL).await;
            self.crash_if_due();
            let now = self.spoke.store().version();
            if now != version {
                (version, since) = (now, Instant::now());
                is_true = true_conditions(&self.spoke.addon()) == [kind];
            }
            assert!(Instant::now() < give_up, "{kind}: {:#}", self.spoke.addon());
        }
        outcome.snapshots.push(snapshot(&self.spoke));
    }
}

fn start_process(spoke: &ApiServer, name: &str) -> Process {
    match name {
        "operator" => start_operator(spoke, RESYNC),
        _ => start_status(spoke, RESYNC),
    }
}

/// Returns the addon's status and the owned objects, without values that differ between runs.
fn snapshot(spoke: &ApiServer) -> Value {
    let comparable = |object: Value| {
        let metadata = &object["metadata"];
        let is_owned = metadata["ownerReferences"].is_array();
        let fields = ["name", "labels", "ownerReferences"].map(|field| metadata[field].clone());
        is_owned.then(|| json!([fields, object["spec"]]))
    };
    let owned = |resource| -> Vec<Value> {
        let objects = spoke.list(resource).into_iter();
        objects.filter_map(comparable).collect()
    };
    let mut status = spoke.addon()["status"].clone();
    let conditions = status["conditions"].as_array_mut().unwrap();
    for condition in conditions.iter_mut() {
        condition["lastTransitionTime"].take();
    }
    conditions.sort_by_key(|condition| condition["type"].to_string());
    json!([status, owned(&DEPLOYMENTS), owned(&SERVICES)])
}

/// Reports success for both collectors, with the rollouts that the status announces.
async fn report_success(spoke: &ApiServer) {
    let addon = spoke.addon();
    for component in AddonComponent::ALL {
        let rollout = addon["status"]["rollouts"][component.name()].as_str();
        let report = CollectorReport {
            rollout: rollout.map(str::to_owned),
            ..collector_report(component, SUCCESS, "sent")
        };
        let written = spoke.status_writer().report(None, &report).await;
        written.unwrap();
    }
}

/// Runs through all phases: startup, a new interval, removal of user workloads, and disabled
/// metrics. Returns the outcome, and whether a process was killed: it may make too few writes.
async fn run_lifecycle(crash: Option<Crash>) -> (Outcome, bool) {
    let mut outcome = Outcome::default();
    let mut processes = Processes::start(crash);
    let mut history = processes.spoke.history();
    processes.settle(&mut outcome, "Progressing").await;
    report_success(&processes.spoke).await;
    processes.settle(&mut outcome, "Available").await;

    let set = |spoke: &ApiServer, field: &str, value: Value| {
        spoke.modify_addon(|addon| addon["spec"][field] = value);
    };
    set(&processes.spoke, "interval", json!(77));
    processes.settle(&mut outcome, "Progressing").await;
    report_success(&processes.spoke).await;
    processes.settle(&mut outcome, "Available").await;

    processes.spoke.delete_uwl_prometheus();
    processes.settle(&mut outcome, "Available").await;
    set(&processes.spoke, "enableMetrics", json!(false));
    processes.settle(&mut outcome, "Disabled").await;

    outcome.transitions = history.checked_transitions();
    for (_, process) in processes.running {
        process.kill();
    }
    (outcome, crash.is_some() && processes.crash.is_none())
}

/// Asserts that each snapshot shows the change of its phase, because comparing the other runs with
/// it would prove nothing otherwise.
fn check_reference(reference: &Outcome) {
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
            let text = &text[phase];
            assert!(text.contains(word), "{word} in phase {phase}: {text}");
        }
    }
    assert!(!text[4].contains(UWL_COLLECTOR), "{}", text[4]);
}

/// Runs the lifecycle with a crash at each write of the process from `first` on, in steps of two.
async fn crash_at_each_write(process: &'static str, lost: LostMessage, first: usize) {
    let (reference, _) = run_lifecycle(None).await;
    check_reference(&reference);
    let mut crashes = 0;
    for at in (first..).step_by(2) {
        let crash = Crash { process, at, lost };
        let (outcome, crashed) = run_lifecycle(Some(crash)).await;
        assert_eq!(outcome, reference, "{crash:?}");
        if !crashed {
            break;
        }
        crashes += 1;
    }
    println!("{process}, {lost:?}: {crashes} crashes");
    assert!(crashes >= 4, "{process}, {lost:?}: {crashes}");
}

#[tokio::test(start_paused = true)]
async fn lost_request_of_operator_changes_no_outcome() {
    crash_at_each_write("operator", LostMessage::Request, 1).await;
}

#[tokio::test(start_paused = true)]
async fn lost_response_to_operator_changes_no_outcome() {
    crash_at_each_write("operator", LostMessage::Response, 2).await;
}

#[tokio::test(start_paused = true)]
async fn crash_of_status_controller_changes_no_outcome() {
    for first in [1, 2] {
        crash_at_each_write("status", LostMessage::Request, first).await;
        crash_at_each_write("status", LostMessage::Response, first).await;
    }
}

#[tokio::test(start_paused = true)]
#[ignore = "takes half a minute"]
async fn other_crashes_of_operator_change_no_outcome() {
    crash_at_each_write("operator", LostMessage::Request, 2).await;
    crash_at_each_write("operator", LostMessage::Response, 1).await;
}
