//! `kelpie check weeder` with the generated RBAC manifest, and without it.

use kelpie_e2e::poll;
use xtask::cache;

use super::fixture::*;
use crate::fixture::{check_rows, run_check};

#[tokio::test]
async fn check_names_each_missing_permission() {
    const WEEDER: &str = "system:serviceaccount:garden:kelpie-weeder";
    let fixture = Fixture::start().await;
    let api = &fixture.seed.control_plane.api;
    let unprivileged = run_check(api, "weeder", "nobody").await;
    assert_eq!(unprivileged.status.code(), Some(1));
    let failed = check_rows(&unprivileged, "fail");
    for missing in [
        "permission: may not list endpointslices.discovery.k8s.io \
         or watch endpointslices.discovery.k8s.io",
        "permission: may not list pods or watch pods",
        "permission: may not delete pods",
        "permission: may not create leases.coordination.k8s.io in namespace garden",
    ] {
        assert!(failed.iter().any(|row| row == missing), "{failed:#?}");
    }

    let rbac = cache::repository().join("deploy/rbac/weeder.yaml");
    let rbac = ["create", "--filename", rbac.to_str().unwrap()];
    fixture.seed.control_plane.api.kubectl(&rbac).await.unwrap();
    let ready = fixture.empty_namespace("shoot--a").await;
    let client = "etcd-main-client";
    ready
        .create_slice("a", client, &[Some(true)])
        .await
        .unwrap();
    let not_ready = fixture.empty_namespace("shoot--b").await;
    not_ready
        .create_slice("a", client, &[Some(false)])
        .await
        .unwrap();
    // The API server's authorizer picks up new rules with a delay.
    let granted = poll::until("the permissions to take effect", TIMEOUT, async || {
        let output = run_check(api, "weeder", WEEDER).await;
        Ok(output.status.success().then_some(output))
    });
    let output = granted.await.unwrap();
    assert_eq!(
        check_rows(&output, "warn"),
        [
            "etcd-main-client: in 2 namespaces, not ready in 1, such as shoot--b",
            "kube-apiserver: no namespace has EndpointSlices of this service",
        ]
    );
}
