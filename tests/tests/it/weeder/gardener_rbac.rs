//! The weeder in the place of dependency-watchdog's, with Gardener's command line and RBAC.

use kelpie_e2e::landscape::{TestPod, WeederProcess, grant_gardener_weeder_role, rest};
use serde_json::json;

use super::fixture::*;

/// Flags that Gardener passes in addition to `--config-file`.
const GARDENER_FLAGS: [&str; 4] = [
    "-kube-api-qps=20.0",
    "--kube-api-burst=100",
    "--zap-log-level=INFO",
    "--enable-leader-election=true",
];

const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-weeder-leader-election";

#[tokio::test]
async fn gardener_flags_and_rbac_are_sufficient() {
    let fixture = Fixture::start().await;
    let client = &fixture.seed.client;
    let namespace = fixture.namespace_without_etcd("shoot").await;
    let other = fixture.namespace_without_etcd("other").await;
    for namespace in [&namespace, &other] {
        for name in ["a", "b"] {
            namespace.create_pod(&TestPod::new(name)).await.unwrap();
        }
        let ownerless = TestPod::new("ownerless").owner(None);
        namespace.create_pod(&ownerless).await.unwrap();
    }
    grant_gardener_weeder_role(client, "dwd").await.unwrap();
    let dwd = fixture.seed.control_plane.api.user("dwd", &[]).unwrap();
    // The test assumes that Events are forbidden.
    let own = fixture.seed.control_plane.api.client(&dwd).await.unwrap();
    let event = json!({
        "metadata": { "generateName": "x." }, "reason": "X",
        "involvedObject": { "kind": "Pod", "namespace": "shoot", "name": "x" },
    });
    let events = "/api/v1/namespaces/shoot/events";
    assert!(rest::create(&own, events, &event).await.is_err());

    let kubeconfig = fixture.seed.kubeconfig_file(&dwd).unwrap();
    // Under dependency-watchdog's name an unknown configuration key is only a warning.
    let config = format!("somethingNew: true\n{CONFIG}");
    let name = "dependency-watchdog";
    let weeder = WeederProcess::start_as(name, &kubeconfig, &config, &GARDENER_FLAGS);
    let weeder = weeder.await.unwrap();
    until_ready(&weeder).await;
    until_leading(&weeder.kelpie).await;
    for namespace in [&namespace, &other] {
        namespace.set_endpoints(ETCD, &[Some(true)]).await.unwrap();
    }
    for namespace in [&namespace, &other] {
        namespace
            .until_live_pods(&["ownerless"], TIMEOUT)
            .await
            .unwrap();
    }
    assert_eq!(weeder.kelpie.lines(&["WARN", "somethingNew"]).len(), 1);
    // The rejection is logged once, and the log contains the evidence instead of Events.
    let refused = ["Events are refused"];
    weeder.kelpie.until_line(&refused, TIMEOUT).await.unwrap();
    let evidence = weeder.kelpie.lines(&["deleting", "exit code 3 (Error)"]);
    assert_eq!(evidence.len(), 4);
    let forbidden = weeder.kelpie.lines(&["forbidden"]);
    assert_eq!(forbidden.len(), 1, "{forbidden:#?}");
    let lease = rest::get(client, LEASE).await.unwrap();
    assert!(lease["spec"]["holderIdentity"].is_string(), "{lease:#}");

    let exit = weeder.kelpie.stop().await.unwrap();
    assert_eq!(exit.code, Some(0));
    let lease = rest::get(client, LEASE).await.unwrap();
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    assert_eq!(holder, "", "the Lease was released");
}
