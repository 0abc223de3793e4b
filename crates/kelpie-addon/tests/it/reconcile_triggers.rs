//! How many reconciliations of the operator a change starts, and when.

use std::time::Duration;

use kelpie_sim::WriteScope;
use kelpie_sim::resource::{CONFIG_MAPS, SECRETS};
use kelpie_sim::server::FaultInjection;
use kelpie_sim::{StatusError, StatusReason};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::fixture::*;

fn spoke_with_inputs() -> ApiServer {
    let Fixture { spoke, .. } = Fixture::without_addons();
    spoke.create_inputs();
    spoke.create_uwl_prometheus();
    spoke
}

/// Returns the number of reconciliations of an operator, whatever their results.
fn reconciliations(operator: &Process) -> u64 {
    let results = ["clean", "failing", "retrying", "aborted"];
    let count =
        |result| operator.metric(&format!("operator_reconciles_total{{result=\"{result}\"}}"));
    results.map(count).iter().sum()
}

/// Changes the custom allowlist, which the operator watches.
fn poke(spoke: &ApiServer, number: usize) {
    let change =
        |object: &mut serde_json::Value| object["data"]["other"] = json!(number.to_string());
    let (store, scope) = (spoke.store(), WriteScope::Object);
    store
        .modify(&CONFIG_MAPS, NAMESPACE, ALLOWLIST, scope, change)
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn start_takes_one_reconciliation() {
    let spoke = spoke_with_inputs();
    for start in ["first", "second"] {
        let operator = start_operator(&spoke, RESYNC);
        sleep(Duration::from_mins(1)).await;
        assert_eq!(reconciliations(&operator), 1, "{start} start");
        operator.stop().await;
    }
    assert!(spoke.deployment(UWL_COLLECTOR).is_some());
}

#[tokio::test(start_paused = true)]
async fn changes_at_once_take_one_reconciliation() {
    let spoke = spoke_with_inputs();
    let operator = start_operator(&spoke, RESYNC);
    sleep(Duration::from_mins(1)).await;
    let before = reconciliations(&operator);
    spoke.modify_addon(|addon| addon["spec"]["interval"] = json!(60));
    spoke.delete(&SECRETS, HUB_INFO_SECRET);
    spoke.create_hub_info(HUB_INFO);
    spoke.delete_uwl_prometheus();
    poke(&spoke, 1);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(reconciliations(&operator), before + 1);
}

#[tokio::test(start_paused = true)]
async fn changes_wait_for_the_backoff() {
    let spoke = spoke_with_inputs();
    let operator = start_operator(&spoke, RESYNC);
    sleep(Duration::from_mins(1)).await;
    let is_read = |request: &kelpie_sim::server::RequestInfo| {
        request.resource.as_ref() == Some(&SECRETS) && request.verb == "get"
    };
    spoke.set_rule(move |request| {
        if is_read(request) {
            let reason = StatusReason::ServiceUnavailable;
            FaultInjection::reject(StatusError::new(reason, "injected"))
        } else {
            FaultInjection::default()
        }
    });
    let before = reconciliations(&operator);
    for number in 0..300 {
        poke(&spoke, number);
        sleep(Duration::from_millis(200)).await;
    }
    let count = reconciliations(&operator) - before;
    assert!((3..=8).contains(&count), "{count} in a minute");
}

#[tokio::test(start_paused = true)]
async fn fixed_input_is_handled_at_once() {
    let spoke = spoke_with_inputs();
    spoke.delete(&SECRETS, HUB_INFO_SECRET);
    let _operator = start_operator(&spoke, RESYNC);
    spoke.until_reason(PLATFORM_STATUS, "UpdateFailure").await;
    sleep(Duration::from_mins(10)).await;
    spoke.create_hub_info(HUB_INFO);
    let started = Instant::now();
    spoke
        .until_reason(PLATFORM_STATUS, "UpdateSuccessful")
        .await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
}
