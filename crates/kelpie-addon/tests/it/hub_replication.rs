//! Replication of the status to the hub.

use std::time::Duration;

use kelpie_sim::server::FaultInjection;
use serde_json::json;

use crate::fixture::*;

#[tokio::test(start_paused = true)]
async fn unreachable_hub_catches_up_later() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    for fault in [
        FaultInjection::reset(),
        FaultInjection::hang(),
        FaultInjection::delayed(Duration::from_millis(300)),
    ] {
        hub.set_rule(move |_| fault.clone());
        let status = fixture.start_status(RESYNC);
        spoke.report(PLATFORM, FAILURE, "").await.unwrap();
        spoke.until_condition("Degraded").await;
        spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
        spoke.until_condition("Available").await;
        hub.clear_rule();
        hub.until_condition("Available").await;
        let state = status.state().await;
        assert_eq!(state["spoke"]["standing"], "Available");
        // The next fault starts with a hub that is out of date.
        hub.set_rule(|_| FaultInjection::reset());
        spoke.report(PLATFORM, FAILURE, "").await.unwrap();
        spoke.until_condition("Degraded").await;
        status.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn resync_finds_new_addon_and_reverts_edits() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    hub.delete(&ADDONS, NAME);
    spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
    let status = fixture.start_status(RESYNC);
    status
        .until_grown("hub_syncs_total{result=\"missing\"}", 1)
        .await;
    hub.create_addon(&json!({ "interval": 60 }));
    let addon = hub.until_condition("Available").await;
    let interval = &addon["spec"]["interval"];
    assert_eq!(*interval, 60, "the hub's spec is not replicated");

    let mut edited = addon["status"]["conditions"].clone();
    edited[0]["reason"] = json!("Edited");
    hub.merge_status(&json!({ "conditions": edited }));
    hub.until_reason(PLATFORM_STATUS, "ForwardSuccessful").await;
    hub.merge_status(&json!({ "conditions": [] }));
    hub.until_condition("Available").await;
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_removed_after_spoke_cleanup() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    let other = "example.org/other";
    let finalizers = [
        "observability.open-cluster-management.io/addon-cleanup",
        other,
    ];
    hub.modify_addon(|addon| addon["metadata"]["finalizers"] = json!(finalizers));
    spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
    let _status = fixture.start_status(Duration::from_secs(1));
    hub.until_condition("Available").await;
    hub.delete(&ADDONS, NAME);
    until("the spoke's deletion", || {
        spoke.get(&ADDONS, NAME).is_none().then_some(())
    })
    .await;
    until("only our finalizer to be removed", || {
        (hub.addon()["metadata"]["finalizers"] == json!([other])).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn hub_is_not_current_without_addon() {
    let Fixture { spoke, hub } = Fixture::without_addons();
    hub.create_addon(&json!({}));
    let fixture = Fixture { spoke, hub };
    let status = fixture.start_status(Duration::from_secs(10));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(status.metric("hub_current"), 0);
    // The alert about a hub that is behind needs synchronizations.
    let counted = ["written", "equal", "missing", "going", "failed"];
    let counted =
        counted.map(|result| status.metric(&format!("hub_syncs_total{{result=\"{result}\"}}")));
    assert_eq!(counted, [0; 5]);
    assert_eq!(status.hub_state().await, "nothingToReplicate");
    fixture.spoke.create_addon(&json!({}));
    fixture.spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
    fixture.hub.until_condition("Available").await;
    assert_eq!(status.metric("hub_current"), 1);
}
