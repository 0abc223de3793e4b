//! Each API call of a scenario fails once, with every kind of error. The addon's condition changes
//! only where the rules say so, and the state afterwards is that of a run without faults.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelpie_sim::server::FaultInjection;
use kelpie_sim::{StatusError, StatusReason};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fixture::*;

/// The error that one call gets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CallFault {
    Status(StatusReason),
    TimeOut,
    Reset,
}

/// The conditions that are True during a rollout without faults.
const ROLLOUT: [&str; 3] = ["Available", "Progressing", "Available"];

/// Errors that the addon cannot be blamed for.
const RETRIED: [CallFault; 7] = [
    CallFault::Status(StatusReason::Unauthorized),
    CallFault::Status(StatusReason::Conflict),
    CallFault::Status(StatusReason::TooManyRequests),
    CallFault::Status(StatusReason::InternalError),
    CallFault::Status(StatusReason::ServiceUnavailable),
    CallFault::TimeOut,
    CallFault::Reset,
];

/// Errors after which the operator may report a failure: a missing permission, a missing object, a
/// rejected request.
const BLAMED: [CallFault; 3] = [
    CallFault::Status(StatusReason::Forbidden),
    CallFault::Status(StatusReason::NotFound),
    CallFault::Status(StatusReason::Invalid),
];

impl CallFault {
    fn injection(self) -> FaultInjection {
        match self {
            Self::Status(reason) => FaultInjection::reject(StatusError::new(reason, "injected")),
            Self::TimeOut => FaultInjection::hang(),
            Self::Reset => FaultInjection::reset(),
        }
    }
}

/// Fails the call number `at` of a process, counted from now on. Returns the counter.
fn fail_call(
    server: &ApiServer,
    user: &'static str,
    at: usize,
    fault: CallFault,
) -> Arc<AtomicUsize> {
    let calls = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&calls);
    server.set_rule(move |request| {
        if request.user.name != user || counter.fetch_add(1, Ordering::Relaxed) + 1 != at {
            return FaultInjection::default();
        }
        fault.injection()
    });
    calls
}

/// Plays a scenario again and again, and fails another call of `user` each time.
async fn fail_each_call(
    server: &ApiServer,
    user: &'static str,
    faults: &[CallFault],
    mut scenario: impl AsyncFnMut(&str),
) {
    for fault in faults {
        let mut at = 1;
        loop {
            let calls = fail_call(server, user, at, *fault);
            scenario(&format!("{fault:?} at call {at} of {user}")).await;
            if calls.load(Ordering::Relaxed) < at {
                break;
            }
            at += 1;
        }
        println!("{user}, {fault:?}: {} calls", at - 1);
        assert!(at > 2, "{user}, {fault:?}: only {} calls", at - 1);
        server.clear_rule();
    }
}

const COLLECTORS: [(kelpie_core::addon::AddonComponent, &str, &str); 2] = [
    (PLATFORM, PLATFORM_COLLECTOR, PLATFORM_STATUS),
    (UWL, UWL_COLLECTOR, UWL_STATUS),
];

/// Changes the interval, and lets the new pods report once their rollout is announced.
async fn roll_out(spoke: &ApiServer, interval: u64) {
    spoke.modify_addon(|addon| addon["spec"]["interval"] = json!(interval));
    let argument = format!("--interval={interval}s");
    for (component, name, kind) in COLLECTORS {
        let has_interval = |found: &Value| arguments(found).contains(&argument.as_str());
        let deployment = spoke.until_deployment(name, has_interval).await;
        spoke.set_pod_ready(name, true);
        let rollout = env_var(&deployment, "KELPIE_ADDON_ROLLOUT");
        until("the announcement", || {
            let addon = spoke.addon();
            let is_announced = addon["status"]["rollouts"][component.name()] == rollout;
            let reason = &condition(&addon, kind)["reason"];
            (is_announced && reason == "UpdateSuccessful").then_some(())
        })
        .await;
    }
    spoke.until_condition("Progressing").await;
    report_until_available(spoke).await;
}

/// Reports as collectors do, again and again. A report may be refused at first.
async fn report_until_available(spoke: &ApiServer) {
    let give_up = Instant::now() + Duration::from_mins(5);
    loop {
        for (component, name, _) in COLLECTORS {
            let deployment = spoke.deployment(name).unwrap();
            let _ = spoke.report_from_pod(component, SUCCESS, &deployment).await;
        }
        sleep(Duration::from_millis(200)).await;
        if true_conditions(&spoke.addon()) == ["Available"] {
            return;
        }
        assert!(Instant::now() < give_up, "{:#}", spoke.addon()["status"]);
    }
}

/// Returns the parts of the spoke that have to be the same after each run.
fn snapshot(spoke: &ApiServer) -> Value {
    let addon = spoke.addon();
    let conditions = addon["status"]["conditions"].as_array().unwrap().iter();
    let conditions: BTreeSet<String> = conditions
        // Only a run with a failure has this one.
        .filter(|condition| condition["type"] != "Degraded")
        .map(|condition| format!("{} {}", condition["type"], condition["status"]))
        .collect();
    let deployments =
        COLLECTORS.map(|(_, name, _)| spoke.deployment(name).unwrap()["spec"].clone());
    json!([conditions, addon["status"]["rollouts"], deployments])
}

/// Starts a spoke whose addon is Available, with both collectors.
async fn available_spoke(resync: Duration) -> (ApiServer, [Process; 2]) {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    spoke.create_uwl_prometheus();
    let processes = [start_status(&spoke, RESYNC), start_operator(&spoke, resync)];
    roll_out(&spoke, 60).await;
    (spoke, processes)
}

/// Rolls out once per run, to one of two intervals in turn. Returns the True conditions that each
/// run has seen.
async fn fail_each_call_of_operator(faults: &[CallFault]) -> BTreeSet<Vec<String>> {
    let (spoke, _processes) = available_spoke(RESYNC).await;
    let mut intervals = [300, 60].into_iter().cycle();
    let mut expected = HashMap::new();
    for interval in intervals.by_ref().take(2) {
        roll_out(&spoke, interval).await;
        expected.insert(interval, snapshot(&spoke));
    }
    let mut seen = BTreeSet::new();
    fail_each_call(&spoke, "operator", faults, async |name| {
        let interval = intervals.next().unwrap();
        let mut history = spoke.history();
        let started = Instant::now();
        roll_out(&spoke, interval).await;
        assert!(started.elapsed() < Duration::from_mins(2), "{name}");
        // A retry that is still to come must not change anything either.
        sleep(Duration::from_secs(3)).await;
        report_until_available(&spoke).await;
        assert_eq!(snapshot(&spoke), expected[&interval], "{name}");
        let transitions = history.checked_transitions();
        let known = ["Available", "Progressing", "Degraded"];
        let is_known = |kind: &String| known.contains(&kind.as_str());
        assert!(transitions.iter().all(is_known), "{name}: {transitions:?}");
        let is_retried = faults == RETRIED;
        assert!(
            !is_retried || transitions == ROLLOUT,
            "{name}: {transitions:?}"
        );
        seen.insert(transitions);
    })
    .await;
    seen
}

#[tokio::test(start_paused = true)]
async fn transient_errors_of_operator_change_no_condition() {
    let seen = fail_each_call_of_operator(&RETRIED).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn blamed_errors_of_operator_degrade_and_recover() {
    let seen = fail_each_call_of_operator(&BLAMED).await;
    let is_degraded = |transitions: &Vec<String>| transitions.contains(&"Degraded".to_owned());
    assert!(seen.iter().any(is_degraded), "{seen:?}");
    // No failure is reported twice.
    for transitions in &seen {
        let is_degraded = |kind: &&String| *kind == "Degraded";
        let count = transitions.iter().filter(is_degraded).count();
        assert!(count <= 1, "{transitions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_error_in_steady_state_changes_no_condition() {
    let resync = Duration::from_secs(10);
    let (spoke, processes) = available_spoke(resync).await;
    let clean = "operator_reconciles_total{result=\"clean\"}";
    let faults = [RETRIED[2], RETRIED[4], RETRIED[5]];
    fail_each_call(&spoke, "operator", &faults, async |name| {
        let mut history = spoke.history();
        sleep(resync).await;
        processes[1].until_grown(clean, 1).await;
        sleep(Duration::from_secs(3)).await;
        let transitions = history.checked_transitions();
        assert_eq!(transitions, ["Available"], "{name}");
    })
    .await;
}

/// Reports a failure and a success, and waits for the standard condition after each.
async fn fail_and_recover(spoke: &ApiServer) {
    for (forward, kind) in [(FAILURE, "Degraded"), (SUCCESS, "Available")] {
        spoke.report(PLATFORM, forward, "").await.unwrap();
        spoke.until_condition(kind).await;
    }
}

/// Asserts that the addon failed and recovered, and nothing else.
fn assert_one_failure(history: &mut StatusHistory, name: &str) {
    let expected = ["Available", "Degraded", "Available"];
    assert_eq!(history.checked_transitions(), expected, "{name}");
}

#[tokio::test(start_paused = true)]
async fn errors_of_status_controller_only_delay_it() {
    let fixture = Fixture::start();
    let spoke = &fixture.spoke;
    let _status = start_status(spoke, RESYNC);
    fail_and_recover(spoke).await;
    fail_each_call(
        spoke,
        "status",
        &[&RETRIED[..], &BLAMED].concat(),
        async |name| {
            let mut history = spoke.history();
            let started = Instant::now();
            fail_and_recover(spoke).await;
            assert!(started.elapsed() < Duration::from_mins(2), "{name}");
            assert_one_failure(&mut history, name);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn errors_of_hub_only_delay_replication() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    let _status = fixture.start_status(RESYNC);
    fail_and_recover(spoke).await;
    fixture.until_in_sync().await;
    fail_each_call(
        hub,
        "status",
        &[&RETRIED[..], &BLAMED].concat(),
        async |name| {
            let mut histories = [spoke, hub].map(ApiServer::history);
            for (forward, kind) in [(FAILURE, "Degraded"), (SUCCESS, "Available")] {
                let started = Instant::now();
                spoke.report(PLATFORM, forward, "").await.unwrap();
                spoke.until_condition(kind).await;
                let took = started.elapsed();
                assert!(
                    took < Duration::from_secs(5),
                    "{name}: the spoke waits for the hub"
                );
                hub.until_condition(kind).await;
            }
            fixture.until_in_sync().await;
            for history in &mut histories {
                assert_one_failure(history, name);
            }
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn errors_of_hop_only_delay_it() {
    let fixture = Fixture::start();
    let hub = &fixture.hub;
    install_managed_addons(hub);
    create_managed_addon(hub, CLUSTER);
    let _hop = fixture.start_hub_status(RESYNC);
    fail_each_call(
        hub,
        "hop",
        &[&RETRIED[..], &BLAMED].concat(),
        async |name| {
            for kind in ["Degraded", "Progressing"] {
                let started = Instant::now();
                hub.merge_status(&json!({ "conditions": [component_condition(kind, "Because")] }));
                until(name, || {
                    let shown = managed_addon(hub, CLUSTER);
                    let status = |of: &str| condition(&shown, of)["status"].clone();
                    let other = if kind == "Degraded" {
                        "Progressing"
                    } else {
                        "Degraded"
                    };
                    (status(kind) == "True" && status(other) == "False").then_some(())
                })
                .await;
                assert!(started.elapsed() < Duration::from_mins(3), "{name}");
            }
        },
    )
    .await;
}
