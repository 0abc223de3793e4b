//! Reconciles without a change write nothing, neither to the spoke nor to the hub. A dry run never
//! does.

use std::path::PathBuf;
use std::time::Duration;

use kelpie_e2e::landscape::{InterceptedRequest, Interceptor};
use kelpie_e2e::{Kelpie, poll};
use serde_json::{Value, json};

use super::fixture::operator::{
    PLATFORM_COLLECTOR, UWL_COLLECTOR, create_inputs, create_uwl_prometheus, find_deployment,
    report_from_pod, start_operator, until_deployment,
};
use super::fixture::{
    AddonCluster, Fixture, SpokeFixture, TIMEOUT, crd_yaml, report, start_server_as,
};

/// Returns the number of reconciles without a change: operator, status controller, hub replication.
async fn reconciles(operator: &Kelpie, status: &Kelpie) -> [f64; 3] {
    let operator_reconciles = "kelpie_addon_operator_reconciles_total{result=\"clean\"}";
    let status_reconciles = "kelpie_addon_status_reconciles_total{result=\"unchanged\"}";
    let hub_syncs = "kelpie_addon_hub_syncs_total{result=\"equal\"}";
    [
        operator.metric(operator_reconciles).await.unwrap(),
        status.metric(status_reconciles).await.unwrap(),
        status.metric(hub_syncs).await.unwrap(),
    ]
}

/// Returns the resource versions of the addons and the collector Deployments.
async fn versions(fixture: &Fixture) -> Vec<Value> {
    let mut objects = vec![fixture.spoke.addon().await, fixture.hub.addon().await];
    for collector in [PLATFORM_COLLECTOR, UWL_COLLECTOR] {
        objects.extend(find_deployment(&fixture.spoke, collector).await);
    }
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    objects.iter().map(version).collect()
}

/// Writes a kubeconfig that leads through the interceptor.
fn intercepted_kubeconfig(cluster: &AddonCluster, interceptor: &Interceptor) -> PathBuf {
    let admin = cluster.api.admin();
    cluster.write_file("door.kubeconfig", &interceptor.kubeconfig(&admin))
}

/// The number of reconciles that are observed.
const RECONCILES: u32 = 15;

#[tokio::test]
async fn fifteen_reconciles_write_nothing() {
    let fixture = Fixture::without_crd().await;
    let (spoke, hub) = (&fixture.spoke, &fixture.hub);
    create_inputs(spoke).await;
    create_uwl_prometheus(spoke).await;
    hub.install_crd(&crd_yaml().await).await;
    hub.create_addon(&json!({})).await;
    let (to_spoke, to_hub) =
        tokio::try_join!(Interceptor::start(&spoke.api), Interceptor::start(&hub.api),).unwrap();
    let resync = "--resync=1s";
    let kubeconfig = intercepted_kubeconfig(spoke, &to_spoke);
    let hub_kubeconfig = intercepted_kubeconfig(hub, &to_hub);
    let hub_kubeconfig = format!("--hub-kubeconfig={}", hub_kubeconfig.display());
    let status = ["--hub-namespace=spoke-1", &hub_kubeconfig, resync];
    let status = start_server_as(&kubeconfig, "status", &status).await;
    // The operator's server-side applies change nothing either, but they are requests. Its requests
    // are therefore not counted.
    let operator = start_operator(spoke, &[resync]).await;
    let platform = until_deployment(spoke, PLATFORM_COLLECTOR, |_| true).await;
    let uwl = until_deployment(spoke, UWL_COLLECTOR, |_| true).await;
    spoke.until_condition("Progressing").await;
    for (component, deployment) in [("platform", &platform), ("uwl", &uwl)] {
        let (code, output) =
            report_from_pod(spoke, component, "ForwardSuccessful", deployment).await;
        assert_eq!(code, Some(0), "{output}");
    }
    spoke.until_condition("Available").await;
    hub.until_condition("Available").await;
    // Pending work is done after two more reconciles.
    let until_reconciled = async |times: u32| {
        let before = reconciles(&operator, &status).await;
        let timeout = TIMEOUT + Duration::from_secs(2 * u64::from(times));
        poll::until("more reconciles", timeout, async || {
            let now = reconciles(&operator, &status).await;
            let enough = now
                .iter()
                .zip(before)
                .all(|(now, before)| *now >= before + f64::from(times));
            Ok(enough.then_some(()))
        })
        .await
        .unwrap();
    };
    until_reconciled(2).await;
    let before = versions(&fixture).await;
    assert_eq!(before.len(), 4);
    let since = [to_spoke.requests().len(), to_hub.requests().len()];

    until_reconciled(RECONCILES).await;

    assert_eq!(versions(&fixture).await, before);
    for (interceptor, since) in [&to_spoke, &to_hub].into_iter().zip(since) {
        let requests = interceptor.requests().split_off(since);
        let is_write = |request: &&InterceptedRequest| request.method != "GET";
        let writes: Vec<&InterceptedRequest> = requests.iter().filter(is_write).collect();
        assert!(writes.is_empty(), "{writes:?}");
        assert!(
            requests.len() >= RECONCILES as usize,
            "only {} requests",
            requests.len()
        );
    }
}

#[tokio::test]
async fn dry_run_reports_and_writes_nothing() {
    let fixture = SpokeFixture::start().await;
    report(&fixture.spoke, "platform", "ForwardSuccessful", &[]).await;
    let before = fixture.spoke.addon().await;
    let status = fixture.start_status(&["--dry-run", "--resync=200ms"]).await;
    poll::until("the dry run to be logged", TIMEOUT, async || {
        Ok(status
            .process()
            .log()
            .contains("dry run: the addon would be Available")
            .then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(fixture.spoke.addon().await["metadata"], before["metadata"]);
    let state = status.get("/debug/state").await.unwrap();
    assert!(state.body.contains("\"dryRun\":true"), "{}", state.body);
}
