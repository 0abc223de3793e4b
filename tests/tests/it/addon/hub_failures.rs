//! Hubs that answer with errors. The spoke is not affected, retries back off, and the hub gets the
//! current state as soon as it accepts it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelpie_e2e::landscape::{InterceptAction, InterceptedRequest, Interceptor, rest};
use kelpie_e2e::{EtcdMember, Kelpie, poll};
use serde_json::Value;
use tokio::time::Instant;

use super::fixture::{AddonCluster, Fixture, TIMEOUT, condition, crd_yaml, report};

/// Shortest pause after the first failure: one second less its jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(750);

/// Starts an interceptor in front of the hub, and returns it with a kubeconfig that leads through
/// it.
async fn intercept(hub: &AddonCluster) -> (Interceptor, PathBuf) {
    let interceptor = Interceptor::start(&hub.api).await.unwrap();
    let kubeconfig = interceptor.kubeconfig(&hub.api.admin());
    let kubeconfig = hub.write_file("intercepted.kubeconfig", &kubeconfig);
    (interceptor, kubeconfig)
}

/// Waits until the interceptor has seen `count` requests after the first `since`, and returns them.
async fn until_requests(
    interceptor: &Interceptor,
    since: usize,
    count: usize,
) -> Vec<InterceptedRequest> {
    let found = poll::until("more requests", TIMEOUT, async || {
        let requests = interceptor.requests().split_off(since);
        Ok((requests.len() >= count).then_some(requests))
    });
    found.await.unwrap()
}

/// Returns the times between successive requests.
fn pauses(requests: &[InterceptedRequest]) -> Vec<Duration> {
    let pairs = requests.windows(2);
    pairs.map(|pair| pair[1].at - pair[0].at).collect()
}

/// Changes the spoke's status twice. The spoke settles regardless of the hub.
async fn change_status(spoke: &AddonCluster, message: &str) {
    for (reason, condition) in [
        ("ForwardFailure", "Degraded"),
        ("ForwardSuccessful", "Available"),
    ] {
        let message = format!("--message={message}");
        report(spoke, "platform", reason, &[&message]).await;
        spoke.until_condition(condition).await;
    }
}

/// Waits until the hub's conditions equal those of the spoke.
async fn until_in_sync(fixture: &Fixture) {
    let Fixture { spoke, hub, .. } = fixture;
    let mut last = Value::Null;
    let in_sync = poll::until("the hub to have the current status", TIMEOUT, async || {
        let hub = rest::get_opt(&hub.client, &hub.addon_path()).await;
        last = hub.ok().flatten().unwrap_or_default();
        let current = spoke.addon().await;
        Ok((last["status"]["conditions"] == current["status"]["conditions"]).then_some(()))
    });
    if let Err(error) = in_sync.await {
        panic!("{error:#}; the hub's last addon was {last:#}");
    }
}

/// Returns the status controller's state of its hub.
async fn hub_state(status: &Kelpie) -> Value {
    let state = status.get("/debug/state").await.unwrap();
    let state: Value = serde_json::from_str(&state.body).unwrap();
    state["hub"]["state"].clone()
}

#[tokio::test]
async fn throttling_hub_is_retried_after_its_pause() {
    let fixture = Fixture::start().await;
    let (interceptor, kubeconfig) = intercept(&fixture.hub).await;
    // Frequent resyncs must not cause more requests to the hub.
    let status = fixture
        .start_status_with_hub(&kubeconfig, &["--resync=100ms"])
        .await;
    change_status(&fixture.spoke, "initial").await;
    until_in_sync(&fixture).await;
    for (headers, shortest) in [
        (vec!["Retry-After: 3"], Duration::from_secs(3)),
        (vec!["Retry-After: 0"], FIRST_PAUSE),
        (vec![], FIRST_PAUSE),
    ] {
        let answer = headers.clone();
        interceptor.set_rule(move |_| InterceptAction::Reject(429, answer.clone()));
        let since = interceptor.requests().len();
        change_status(&fixture.spoke, &format!("{headers:?}")).await;
        let requests = until_requests(&interceptor, since, 3).await;
        let pauses = pauses(&requests);
        assert!(
            pauses.iter().all(|pause| *pause >= shortest),
            "{headers:?}: {pauses:?}"
        );
        interceptor.set_rule(|_| InterceptAction::Pass);
        until_in_sync(&fixture).await;
    }
    assert_eq!(hub_state(&status).await, "current");
}

#[tokio::test]
async fn failing_hub_is_retried_with_backoff() {
    let fixture = Fixture::start().await;
    let (interceptor, kubeconfig) = intercept(&fixture.hub).await;
    let _status = fixture
        .start_status_with_hub(&kubeconfig, &["--resync=100ms"])
        .await;
    change_status(&fixture.spoke, "initial").await;
    until_in_sync(&fixture).await;
    for code in [500, 503] {
        interceptor.set_rule(move |_| InterceptAction::Reject(code, vec![]));
        let since = interceptor.requests().len();
        change_status(&fixture.spoke, &code.to_string()).await;
        let requests = until_requests(&interceptor, since, 3).await;
        let pauses = pauses(&requests);
        assert!(pauses[0] >= FIRST_PAUSE, "{code}: {pauses:?}");
        assert!(pauses[1] >= FIRST_PAUSE * 2, "{code}: {pauses:?}");

        let passed = Arc::<Mutex<Vec<String>>>::default();
        let methods = Arc::clone(&passed);
        interceptor.set_rule(move |request| {
            methods.lock().unwrap().push(request.method.clone());
            InterceptAction::Pass
        });
        until_in_sync(&fixture).await;
        let passed = passed.lock().unwrap();
        assert_eq!(
            passed[..2],
            ["GET", "PUT"],
            "{code}: the first attempt succeeds"
        );
    }
}

#[tokio::test]
async fn rejected_status_is_retried_once_per_resync() {
    let fixture = Fixture::start().await;
    let (interceptor, kubeconfig) = intercept(&fixture.hub).await;
    // The hub's CRD differs: it allows short messages only.
    let current = crd_yaml().await;
    let strict = current.replace("maxLength: 32768", "maxLength: 8");
    assert_ne!(strict, current);
    fixture.hub.install_crd(&strict).await;
    let resync = Duration::from_secs(2);
    let status = fixture
        .start_status_with_hub(&kubeconfig, &["--resync=2s"])
        .await;
    report(
        &fixture.spoke,
        "platform",
        "ForwardFailure",
        &["--message=m"],
    )
    .await;
    fixture.spoke.until_condition("Degraded").await;
    let reason = poll::until("the rejection to be reported", TIMEOUT, async || {
        let state = hub_state(&status).await;
        Ok(state["failing"].as_str().map(str::to_owned))
    });
    let reason = reason.await.unwrap();
    assert!(reason.contains("rejected it as invalid"), "{reason}");
    assert!(
        reason.contains("status.conditions"),
        "names the field: {reason}"
    );
    status
        .until_line(&["WARN", "rejected it as invalid"], TIMEOUT)
        .await
        .unwrap();
    // HTTP 400 is treated in the same way.
    let is_write = |request: &&InterceptedRequest| request.method == "PUT";
    for answer in [InterceptAction::Pass, InterceptAction::Reject(400, vec![])] {
        interceptor.set_rule(move |request| match request.method.as_str() {
            "PUT" => answer.clone(),
            _ => InterceptAction::Pass,
        });
        let (start, since) = (Instant::now(), interceptor.requests().len());
        poll::until("three more attempts", TIMEOUT, async || {
            let requests = interceptor.requests().split_off(since);
            Ok((requests.iter().filter(is_write).count() >= 3).then_some(()))
        })
        .await
        .unwrap();
        let requests = interceptor.requests().split_off(since);
        let attempts = requests.iter().filter(is_write).count();
        let resyncs = start.elapsed().as_millis() / resync.as_millis();
        // One more at either end.
        assert!(
            attempts as u128 <= resyncs + 2,
            "{attempts} in {resyncs} resyncs"
        );
    }
    interceptor.set_rule(|_| InterceptAction::Pass);
    fixture.hub.install_crd(&current).await;
    until_in_sync(&fixture).await;
}

#[tokio::test]
async fn late_write_does_not_undo_newer_status() {
    let fixture = Fixture::start().await;
    let (interceptor, kubeconfig) = intercept(&fixture.hub).await;
    // The first write is held until the status controller has given up on it.
    let mut writes = 0;
    interceptor.set_rule(move |request| {
        writes += usize::from(request.method == "PUT");
        match (request.method.as_str(), writes) {
            ("PUT", 1) => InterceptAction::Hold,
            _ => InterceptAction::Pass,
        }
    });
    let _status = fixture.start_status_with_hub(&kubeconfig, &[]).await;
    report(&fixture.spoke, "platform", "ForwardFailure", &[]).await;
    interceptor
        .until_held(TIMEOUT, |request| request.method == "PUT")
        .await
        .unwrap();
    change_status(&fixture.spoke, "second").await;
    until_in_sync(&fixture).await;
    let version = fixture.hub.addon().await["metadata"]["resourceVersion"].clone();
    let since = interceptor.requests().len();
    interceptor.release_held();
    // Later requests are answered, so the late write has arrived by then.
    change_status(&fixture.spoke, "third").await;
    until_in_sync(&fixture).await;
    let addon = fixture.hub.addon().await;
    assert_ne!(addon["metadata"]["resourceVersion"], version);
    let message = condition(&addon, "Available")["message"].clone();
    assert!(message.as_str().unwrap().contains("third"), "{message}");
    let requests = interceptor.requests().split_off(since);
    // Two reports and their aggregates, each with a read and a write. One of them may be retried.
    assert!(requests.len() <= 10, "{requests:?}");
}

#[tokio::test]
async fn rejected_credentials_are_reread_from_file() {
    let fixture = Fixture::start().await;
    let (interceptor, kubeconfig) = intercept(&fixture.hub).await;
    let admin = fixture.hub.api.admin();
    for code in [401, 403] {
        std::fs::write(&kubeconfig, interceptor.kubeconfig(&admin)).unwrap();
        interceptor.set_rule(|_| InterceptAction::Pass);
        let status = fixture
            .start_status_with_hub(&kubeconfig, &["--resync=100ms"])
            .await;
        change_status(&fixture.spoke, "initial").await;
        until_in_sync(&fixture).await;

        interceptor.set_rule(move |_| InterceptAction::Reject(code, vec![]));
        let since = interceptor.requests().len();
        change_status(&fixture.spoke, &code.to_string()).await;
        let requests = until_requests(&interceptor, since, 2).await;
        assert!(pauses(&requests)[0] >= FIRST_PAUSE);
        // The new kubeconfig bypasses the interceptor.
        std::fs::write(&kubeconfig, fixture.hub.api.kubeconfig(&admin)).unwrap();
        until_in_sync(&fixture).await;
        let since = interceptor.requests().len();
        change_status(&fixture.spoke, "rotated").await;
        until_in_sync(&fixture).await;
        assert_eq!(
            interceptor.requests().len(),
            since,
            "the old kubeconfig is still in use"
        );
        status.stop().await.unwrap();
    }
}

#[tokio::test]
async fn hub_restored_from_backup_gets_current_status() {
    let mut etcd = EtcdMember::start("etcd").await.unwrap();
    let mut fixture = Fixture::with_hub_on(&etcd).await;
    let status = fixture.start_status(&["--resync=1s"]).await;
    report(
        &fixture.spoke,
        "platform",
        "ForwardFailure",
        &["--message=old"],
    )
    .await;
    fixture.hub.until_condition("Degraded").await;
    fixture.hub.api.kill();
    etcd.back_up().await.unwrap();
    fixture.hub.api.restart().await.unwrap();
    change_status(&fixture.spoke, "new").await;
    until_in_sync(&fixture).await;
    let newer = fixture.hub.addon().await["metadata"]["resourceVersion"].clone();

    fixture.hub.api.kill();
    etcd.restore().await.unwrap();
    fixture.hub.api.restart().await.unwrap();

    until_in_sync(&fixture).await;
    let number = |version: &Value| version.as_str().unwrap().parse::<u64>().unwrap();
    let addon = fixture.hub.addon().await;
    assert!(number(&addon["metadata"]["resourceVersion"]) <= number(&newer));
    // Replication continues from there.
    report(
        &fixture.spoke,
        "uwl",
        "ForwardFailure",
        &["--message=after"],
    )
    .await;
    fixture.hub.until_condition("Degraded").await;
    until_in_sync(&fixture).await;
    assert_eq!(hub_state(&status).await, "current");
}
