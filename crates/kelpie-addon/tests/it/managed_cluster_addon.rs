//! The hub status controller shows every cluster's addon in its `ManagedClusterAddOn`.

use std::time::Duration;

use kelpie_sim::server::FaultInjection;
use kelpie_sim::{StatusError, StatusReason, WriteScope};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fixture::*;

fn set_status(hub: &ApiServer, field: &str, value: &Value) {
    let change = |object: &mut Value| object["status"][field] = value.clone();
    let (store, scope) = (hub.store(), WriteScope::Status);
    store
        .modify(&MANAGED_ADDONS, CLUSTER, MANAGED_ADDON, scope, change)
        .unwrap();
}

/// Waits until these conditions have these statuses, and returns the `ManagedClusterAddOn`.
async fn until_statuses(hub: &ApiServer, statuses: &[(&str, &str)]) -> Value {
    until("the conditions on the hub", || {
        let object = managed_addon(hub, CLUSTER);
        let matches = |(kind, status): &(&str, &str)| condition(&object, kind)["status"] == *status;
        statuses.iter().all(matches).then_some(object)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn status_is_copied_except_foreign_available() {
    let fixture = Fixture::start();
    let Fixture { spoke, hub } = &fixture;
    install_managed_addons(hub);
    create_managed_addon(hub, CLUSTER);
    let leased = component_condition("Available", "ManagedClusterAddOnLeaseUpdated");
    set_status(hub, "conditions", &json!([leased]));

    let _status = fixture.start_status(RESYNC);
    let _hub_status = fixture.start_hub_status(Duration::from_secs(1));
    spoke.report(PLATFORM, FAILURE, "503").await.unwrap();
    let object = until_statuses(hub, &[("Degraded", "True"), ("Progressing", "False")]).await;
    assert_eq!(condition(&object, "Degraded")["reason"], "ForwardFailure");
    let text = message(&object, "Degraded");
    assert!(text.contains("503"), "{text}");
    assert_eq!(*condition(&object, "Available"), leased);
    let since = &condition(&object, "Degraded")["lastTransitionTime"];

    // A new message does not change the transition time.
    sleep(Duration::from_secs(10)).await;
    spoke.report(PLATFORM, FAILURE, "timeout").await.unwrap();
    let object = until("the new message", || {
        let object = managed_addon(hub, CLUSTER);
        message(&object, "Degraded")
            .contains("timeout")
            .then_some(object)
    });
    let object = object.await;
    assert_eq!(condition(&object, "Degraded")["lastTransitionTime"], *since);

    // Resyncs without a change write nothing.
    sleep(Duration::from_mins(5)).await;
    assert_eq!(managed_addon(hub, CLUSTER), object);

    // With this mode the hub leaves Available to the addon.
    set_status(hub, "healthCheck", &json!({ "mode": "Customized" }));
    until_statuses(hub, &[("Degraded", "True"), ("Available", "False")]).await;
    spoke.report(PLATFORM, SUCCESS, "").await.unwrap();
    until_statuses(hub, &[("Degraded", "False"), ("Available", "True")]).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_write_does_not_block_other_clusters() {
    let fixture = Fixture::start();
    let hub = &fixture.hub;
    install_managed_addons(hub);
    let conditions = json!([
        component_condition(PLATFORM_STATUS, "ForwardFailure"),
        component_condition("Degraded", "ForwardFailure"),
    ]);
    // This cluster comes first in alphabetical order.
    let another = "another";
    hub.create_namespace(another);
    let addon = json!({ "metadata": { "name": NAME } });
    hub.store().create(&ADDONS, another, addon).unwrap();
    for cluster in [another, CLUSTER] {
        let change = |addon: &mut Value| addon["status"]["conditions"] = conditions.clone();
        let (store, scope) = (hub.store(), WriteScope::Status);
        store.modify(&ADDONS, cluster, NAME, scope, change).unwrap();
        create_managed_addon(hub, cluster);
    }
    hub.set_rule(move |request| match request.verb {
        "update" if request.namespace == another => {
            FaultInjection::reject(StatusError::new(StatusReason::Forbidden, "injected"))
        }
        _ => FaultInjection::default(),
    });
    let _hub_status = fixture.start_hub_status(RESYNC);
    until_statuses(hub, &[("Degraded", "True")]).await;

    let since = hub.request_count();
    hub.clear_rule();
    until("the other cluster's status", || {
        let object = managed_addon(hub, another);
        (condition(&object, "Degraded")["status"] == "True").then_some(())
    })
    .await;
    let requests = hub.requests_since(since);
    let writes = requests.iter().filter(|request| is_write(request)).count();
    assert_eq!(
        writes, 1,
        "an up-to-date cluster is written again: {requests:?}"
    );
}
