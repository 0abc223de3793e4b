//! Hubs that answer with errors. The spoke is not affected, retries back off, and the hub gets the
//! current state as soon as it accepts it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_kube::client::ClientError;
use kelpie_sim::server::{FaultInjection, RequestInfo};
use kelpie_sim::{StatusError, StatusReason};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::fixture::*;

const FREQUENTLY: Duration = Duration::from_millis(100);
/// The shortest pause after the first failure: one second less its jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(750);

/// The counter of failed synchronizations.
const FAILED: &str = "hub_syncs_total{result=\"failed\"}";

fn rejection(reason: StatusReason) -> FaultInjection {
    FaultInjection::reject(StatusError::new(reason, "injected"))
}

/// Waits for `count` requests after the first `since`, and returns them.
async fn until_requests(hub: &ApiServer, since: usize, count: usize) -> Vec<RequestInfo> {
    until("more requests", || {
        let requests = hub.requests_since(since);
        (requests.len() >= count).then_some(requests)
    })
    .await
}

/// Returns the times between successive requests.
fn pauses(requests: &[RequestInfo]) -> Vec<Duration> {
    let times = requests.iter().map(|request| request.received_at);
    let later = times.clone().skip(1);
    later
        .zip(times)
        .map(|(later, earlier)| later.since(earlier))
        .collect()
}

/// Changes the spoke's status twice. The spoke settles regardless of the hub.
async fn change_status(spoke: &ApiServer, message: &str) {
    for (forward, kind) in [(FAILURE, "Degraded"), (SUCCESS, "Available")] {
        spoke.report(PLATFORM, forward, message).await.unwrap();
        spoke.until_condition(kind).await;
    }
}

/// Starts a spoke and a hub in sync.
async fn in_sync(resync: Duration) -> (Fixture, Process) {
    let fixture = Fixture::start();
    let status = fixture.start_status(resync);
    change_status(&fixture.spoke, "initial").await;
    fixture.until_in_sync().await;
    (fixture, status)
}

#[tokio::test(start_paused = true)]
async fn throttling_hub_is_retried_after_its_pause() {
    // Frequent resyncs must not cause more requests to the hub.
    let (fixture, status) = in_sync(FREQUENTLY).await;
    let Fixture { spoke, hub } = &fixture;
    for (retry_after, shortest) in [
        (Some(3), Duration::from_secs(3)),
        (Some(0), FIRST_PAUSE),
        (None, FIRST_PAUSE),
    ] {
        let mut error = StatusError::new(StatusReason::TooManyRequests, "injected");
        if let Some(seconds) = retry_after {
            let details = error.details.get_or_insert_default();
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        hub.set_rule(move |_| FaultInjection::reject(error.clone()));
        let since = hub.request_count();
        change_status(spoke, &format!("{retry_after:?}")).await;
        let pauses = pauses(&until_requests(hub, since, 4).await);
        // The first request may have been on its way when the rule was set.
        assert!(
            pauses[1..].iter().all(|pause| *pause >= shortest),
            "{retry_after:?}: {pauses:?}"
        );
        hub.clear_rule();
        fixture.until_in_sync().await;
    }
    assert_eq!(status.hub_state().await, "current");
}

#[tokio::test(start_paused = true)]
async fn failing_hub_is_retried_with_backoff() {
    let (fixture, _status) = in_sync(FREQUENTLY).await;
    let Fixture { spoke, hub } = &fixture;
    for reason in [
        StatusReason::InternalError,
        StatusReason::ServiceUnavailable,
    ] {
        hub.set_rule(move |_| rejection(reason));
        let since = hub.request_count();
        change_status(spoke, &format!("{reason:?}")).await;
        let pauses = pauses(&until_requests(hub, since, 3).await);
        assert!(pauses[0] >= FIRST_PAUSE, "{reason:?}: {pauses:?}");
        assert!(pauses[1] >= FIRST_PAUSE * 2, "{reason:?}: {pauses:?}");

        let passed = Arc::<Mutex<Vec<&str>>>::default();
        let verbs = Arc::clone(&passed);
        hub.set_rule(move |request| {
            verbs.lock().unwrap().push(request.verb);
            FaultInjection::default()
        });
        fixture.until_in_sync().await;
        let passed = passed.lock().unwrap();
        assert_eq!(passed[..2], ["get", "update"], "the first attempt succeeds");
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_status_is_retried_once_per_resync() {
    let resync = Duration::from_secs(20);
    let (fixture, status) = in_sync(resync).await;
    let Fixture { spoke, hub } = &fixture;
    for reason in [StatusReason::Invalid, StatusReason::BadRequest] {
        hub.set_rule(move |request| match request.verb {
            "update" => rejection(reason),
            _ => FaultInjection::default(),
        });
        change_status(spoke, &format!("{reason:?}")).await;
        sleep(Duration::from_secs(1)).await;
        let state = status.hub_state().await;
        let error = state["failing"].as_str().unwrap();
        assert!(
            error.contains("rejected it as invalid: injected"),
            "{error}"
        );
        let since = hub.request_count();
        sleep(10 * resync).await;
        let requests = hub.requests_since(since);
        let attempts = requests.iter().filter(|request| is_write(request)).count();
        assert_eq!(attempts, 10);
    }
    hub.clear_rule();
    fixture.until_in_sync().await;
}

#[tokio::test(start_paused = true)]
async fn late_write_does_not_undo_newer_status() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    // The first write is held until the status controller has given up on it.
    let release = Arc::<Notify>::default();
    let mut held = Some(Arc::clone(&release));
    hub.set_rule(move |request| match request.verb {
        "update" => held
            .take()
            .map_or_else(FaultInjection::default, FaultInjection::held),
        _ => FaultInjection::default(),
    });
    let _status = fixture.start_status(RESYNC);
    spoke.report(PLATFORM, FAILURE, "").await.unwrap();
    let is_write = |request: &RequestInfo| request.verb == "update";
    until("the first write", || {
        hub.requests_since(0).iter().any(is_write).then_some(())
    })
    .await;
    change_status(spoke, "second").await;
    fixture.until_in_sync().await;
    let before = hub.addon();
    let since = hub.request_count();
    release.notify_one();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(hub.addon(), before, "the late write conflicts");
    change_status(spoke, "third").await;
    fixture.until_in_sync().await;
    let addon = hub.addon();
    assert_ne!(version(&addon), version(&before));
    let text = message(&addon, "Available");
    assert!(text.contains("third"), "{text}");
    // Two reports and their aggregates, each with a read and a write.
    let requests = hub.requests_since(since);
    assert!(requests.len() <= 8, "{requests:?}");
}

/// The name of the client with the rotated credentials.
const ROTATED: &str = "collector";

#[tokio::test(start_paused = true)]
async fn rejected_client_is_replaced_with_backoff() {
    for reason in [StatusReason::Unauthorized, StatusReason::Forbidden] {
        let fixture = Fixture::start();
        let Fixture { spoke, hub } = &fixture;
        let clients = ["status", ROTATED].map(|user| hub.client(user));
        let [is_rotating, is_rotated] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let flags = [&is_rotating, &is_rotated].map(Arc::clone);
        let connect = move || match flags.each_ref().map(|flag| flag.load(Ordering::Relaxed)) {
            [_, true] => Ok(clients[1].clone()),
            [true, _] => Err(ClientError::Setup {
                role: "hub",
                reason: "nonsense".into(),
            }),
            _ => Ok(clients[0].clone()),
        };
        let status = fixture.start_status_connecting(FREQUENTLY, connect);
        change_status(spoke, "initial").await;
        fixture.until_in_sync().await;

        let is_rejected = |request: &RequestInfo| request.user.name != ROTATED;
        hub.set_rule(move |request| {
            let rejected = is_rejected(request).then(|| rejection(reason));
            rejected.unwrap_or_default()
        });
        let since = hub.request_count();
        change_status(spoke, "rejected").await;
        let requests = until_requests(hub, since, 2).await;
        assert!(pauses(&requests)[0] >= FIRST_PAUSE);
        // While the credentials cannot be read, the old client stays in use.
        is_rotating.store(true, Ordering::Relaxed);
        status.until_grown(FAILED, 1).await;
        let requests = hub.requests_since(0);
        assert!(requests.iter().all(is_rejected));
        is_rotated.store(true, Ordering::Relaxed);
        fixture.until_in_sync().await;
        let failed = status.metric(FAILED);
        assert!((2..=10).contains(&failed), "{failed}");
        let since = hub.request_count();
        change_status(spoke, "rotated").await;
        fixture.until_in_sync().await;
        let requests = hub.requests_since(since);
        assert!(
            !requests.iter().any(is_rejected),
            "the old client is still in use"
        );
        status.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn hub_restored_from_backup_gets_current_status() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    let status = fixture.start_status(Duration::from_secs(1));
    spoke.report(PLATFORM, FAILURE, "old").await.unwrap();
    hub.until_condition("Degraded").await;
    let backup = hub.store().snapshot();
    change_status(spoke, "new").await;
    fixture.until_in_sync().await;
    let newer = hub.addon();

    hub.set_up(false);
    status.until_grown(FAILED, 1).await;
    hub.restore(backup);
    hub.set_up(true);
    assert_eq!(message(&hub.addon(), PLATFORM_STATUS), "old");
    fixture.until_in_sync().await;
    let number = |addon: &Value| version(addon).as_str().unwrap().parse::<u64>().unwrap();
    assert!(number(&hub.addon()) <= number(&newer));
    // Replication continues from there.
    spoke.report(UWL, FAILURE, "after").await.unwrap();
    hub.until_condition("Degraded").await;
    fixture.until_in_sync().await;
    assert_eq!(status.hub_state().await, "current");
}
