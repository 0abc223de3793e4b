//! `kelpie addon status` on the spoke.

use std::time::Duration;

use kelpie_e2e::{landscape::rest, poll};
use serde_json::json;

use super::stage::{
    Alone, M, NAMESPACE, PATIENCE, Stage, U, component, condition, definition, report, trues,
};

#[tokio::test]
async fn the_boot_with_both_collectors_is_progressing_until_both_forward() {
    let stage = Stage::start().await;
    let history = stage.spoke.history().await;
    let _status = stage.status(&[]).await;
    let both = [
        component(M, "UpdateSuccessful"),
        component(U, "UpdateSuccessful"),
    ];
    stage
        .spoke
        .merge_status(&json!({ "conditions": both }))
        .await;
    stage.spoke.until("Progressing").await;
    report(
        &stage.spoke,
        "platform",
        "ForwardSuccessful",
        &["--message=sent"],
    )
    .await;
    // The message of Progressing names the new state.
    poll::until("the message to follow", PATIENCE, async || {
        let addon = stage.spoke.addon().await;
        let message = condition(&addon, "Progressing")["message"]
            .as_str()
            .unwrap_or_default();
        Ok(message
            .contains("platform collector: ForwardSuccessful")
            .then_some(()))
    })
    .await
    .unwrap();
    report(&stage.spoke, "uwl", "ForwardSuccessful", &[]).await;
    let last = stage.spoke.until("Available").await;
    history.until_seen(&last).await;
    assert_eq!(history.standings(), ["-", "Progressing", "Available"]);
    let hub = stage.hub.until("Available").await;
    assert_eq!(hub["status"]["conditions"], last["status"]["conditions"]);
}

#[tokio::test]
async fn neither_a_held_component_nor_the_other_collector_makes_it_flap() {
    let stage = Alone::start().await;
    let _status = stage.status(&[]).await;
    let conditions = [component(M, "UpdateFailure")];
    stage
        .spoke
        .merge_status(&json!({ "conditions": conditions }))
        .await;
    stage.spoke.until("Degraded").await;
    let history = stage.spoke.history().await;
    for _ in 0..5 {
        let (code, said) = report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
        assert_eq!(code, Some(3), "{said}");
    }
    // The other one forwards, and it stays as it is.
    for round in 0..5 {
        let message = format!("--message={round}");
        report(&stage.spoke, "uwl", "ForwardSuccessful", &[&message]).await;
    }
    let last = poll::until("the last word to be told", PATIENCE, async || {
        let addon = stage.spoke.addon().await;
        let message = condition(&addon, "Degraded")["message"]
            .as_str()
            .unwrap_or_default();
        Ok(message
            .contains("ForwardSuccessful (4)")
            .then(|| addon.clone()))
    });
    let last = last.await.unwrap();
    history.until_seen(&last).await;
    assert_eq!(history.standings(), ["Degraded"]);
    assert_eq!(condition(&last, "Degraded")["reason"], "UpdateFailure");
}

#[tokio::test]
async fn what_was_said_while_nobody_ran_is_aggregated_at_the_start() {
    let stage = Alone::start().await;
    report(
        &stage.spoke,
        "platform",
        "ForwardFailure",
        &["--message=503"],
    )
    .await;
    let _status = stage.status(&[]).await;
    let addon = stage.spoke.until("Degraded").await;
    let message = "platform collector: ForwardFailure (503)";
    assert_eq!(condition(&addon, "Degraded")["message"], message);
}

#[tokio::test]
async fn its_own_writes_do_not_wake_it() {
    let stage = Alone::start().await;
    // Nothing but what happens makes it look.
    let status = stage.status(&["--resync=1h"]).await;
    let looks = async || {
        let settled = |result: &str| format!("kelpie_addon_settled_total{{result=\"{result}\"}}");
        let changed = status.metric(&settled("changed")).await.unwrap();
        (changed, status.metric(&settled("unchanged")).await.unwrap())
    };
    let history = stage.spoke.history().await;
    let mut last = json!(null);
    for (reason, standing) in [
        ("ForwardFailure", "Degraded"),
        ("ForwardSuccessful", "Available"),
        ("ForwardFailure", "Degraded"),
    ] {
        report(&stage.spoke, "platform", reason, &[]).await;
        last = stage.spoke.until(standing).await;
    }
    // A foreign condition passes by after its own last write: who is told of the one has been told
    // of the other.
    let path = format!("{}/status", stage.spoke.path());
    let mut conditions = last["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(component("Foreign", "Passes"));
    let patch = json!({ "status": { "conditions": conditions } });
    let passed = rest::merge(&stage.spoke.client, &path, &patch)
        .await
        .unwrap();
    history.until_seen(&passed).await;
    poll::until("it to be told", PATIENCE, async || {
        let state = status.get("/debug/state").await?;
        Ok(state.body.contains("Foreign").then_some(()))
    })
    .await
    .unwrap();
    // One look at the first list, at most: it has no component.
    let (changed, unchanged) = looks().await;
    assert_eq!(changed.to_string(), "3");
    assert!(unchanged <= 1.0, "{unchanged}");
}

#[tokio::test]
async fn a_standard_condition_that_somebody_removed_is_back_after_a_resync() {
    let stage = Alone::start().await;
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    let _status = stage.status(&["--resync=300ms"]).await;
    let addon = stage.spoke.until("Available").await;
    let own = condition(&addon, M).clone();
    stage
        .spoke
        .merge_status(&json!({ "conditions": [own] }))
        .await;
    stage.spoke.until("Available").await;
}

#[tokio::test]
async fn duplicates_of_older_days_are_healed() {
    let stage = Alone::bare().await;
    // The definition of old: the list is one value, and nobody looks into it.
    let ours = definition().await;
    let atomic = without_keys(&ours).unwrap();
    stage.spoke.install(&atomic).await;
    stage.spoke.create_addon(&json!({})).await;
    let mut older = component(M, "UpdateFailure");
    older["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    stage
        .spoke
        .merge_status(&json!({ "conditions": [
            older,
            component(M, "ForwardSuccessful"),
            component("Available", "ForwardSuccessful"),
            component("Progressing", "UpdateSuccesful"),
            component("Progressing", "UpdateSuccesful"),
            component("Foreign", "Kept"),
        ] }))
        .await;
    assert_eq!(trues(&stage.spoke.addon().await).len(), 3);
    stage.spoke.install(&ours).await;
    let _status = stage.status(&[]).await;
    let addon = stage.spoke.until("Available").await;
    super::history::assert_valid(&addon);
    assert_eq!(condition(&addon, "Foreign")["reason"], "Kept");
    assert_eq!(condition(&addon, M)["reason"], "ForwardSuccessful");
    assert_eq!(condition(&addon, "Progressing")["status"], "False");
}

/// The definition with an atomic list of conditions.
fn without_keys(definition: &str) -> Option<String> {
    let start = definition.find("x-kubernetes-list-map-keys:")?;
    let line = definition[..start].rfind('\n')? + 1;
    let after = definition[start..].find("- type\n")? + start + "- type\n".len();
    let text = format!("{}{}", &definition[..line], &definition[after..]);
    Some(text.replace(
        "x-kubernetes-list-type: map",
        "x-kubernetes-list-type: atomic",
    ))
}

#[tokio::test]
async fn a_dry_run_tells_and_writes_nothing() {
    let stage = Alone::start().await;
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    let before = stage.spoke.addon().await;
    let status = stage.status(&["--dry-run", "--resync=200ms"]).await;
    poll::until("the rehearsal to be told", PATIENCE, async || {
        Ok(status
            .process()
            .log()
            .contains("dry run: the addon would be Available")
            .then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(stage.spoke.addon().await["metadata"], before["metadata"]);
    let state = status.get("/debug/state").await.unwrap();
    assert!(state.body.contains("\"dryRun\":true"), "{}", state.body);
}

#[tokio::test]
async fn a_spoke_that_goes_and_comes_is_followed_again() {
    let mut stage = Stage::start().await;
    report(&stage.spoke, "platform", "ForwardSuccessful", &[]).await;
    let status = stage.status(&["--resync=1s"]).await;
    stage.hub.until("Available").await;
    stage.spoke.api.go_down();
    poll::until(
        "the outage to be noticed",
        Duration::from_mins(2),
        async || {
            let log = status.process().log();
            Ok((log.contains("is the API server up?")).then_some(()))
        },
    )
    .await
    .unwrap();
    stage.spoke.api.come_back().await.unwrap();
    report(&stage.spoke, "platform", "ForwardFailure", &[]).await;
    stage.spoke.until("Degraded").await;
    stage.hub.until("Degraded").await;
    let describe = ["describe", "observabilityaddons", "--namespace", NAMESPACE];
    poll::until("people to see the Event", PATIENCE, async || {
        let said = stage.spoke.api.kubectl(&describe).await?;
        Ok(said.contains("Warning  Degraded").then_some(()))
    })
    .await
    .unwrap();
}
