//! The tenant client on a real API server: its results and its errors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kelpie_core::Time;
use kelpie_e2e::{ControlPlane, Credentials, get_raw};
use kelpie_kube::kubeconfig::TenantConfig;
use kelpie_kube::lists::{Decoder, LeaseList, List, NodeList};
use kelpie_kube::tenant::{ConnectionReuse, FailureKind, Tenant, TenantError};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{from_value, json};
use tokio::time::Instant;

use crate::fixture::gardener_nodes;

const NODES: &str = "/api/v1/nodes";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// The renewal time and the duration of each lease, by node.
type LeaseTimes = BTreeMap<String, (Option<Time>, Option<i32>)>;

fn tenant(kubeconfig: &str) -> Tenant {
    let access = TenantConfig::from_kubeconfig(kubeconfig.as_bytes()).unwrap();
    Tenant::new(access, ConnectionReuse::Keep)
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

async fn write_leases(client: &Client) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    for number in 0..20 {
        let name = format!("node-{number:02}");
        // One lease was never renewed.
        let renewed =
            (number != 7).then(|| format!("2026-09-21T14:13:{number:02}.0{number:02}456Z"));
        let lease = json!({
            "metadata": { "name": name },
            "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed },
        });
        let lease: Lease = from_value(lease).unwrap();
        leases.create(&PostParams::default(), &lease).await.unwrap();
    }
}

async fn write_nodes(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, annotation) in [
        ("a", "x"),
        ("b", "node.machine.sapcloud.io/not-managed-by-mcm"),
    ] {
        let node = json!({
            "metadata": {
                "name": name,
                "labels": { "worker.gardener.cloud/pool": format!("pool-{name}"), "other": "x" },
                "annotations": { annotation: "" },
            },
            "status": { "conditions": [
                { "type": "DiskPressure", "status": "True", "reason": "Full", "message": "\"{[" },
                { "type": "InPlaceUpdate", "status": "False", "reason": "ReadyForUpdate" },
            ] },
        });
        let node: Node = from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
}

fn renewals(leases: &LeaseList) -> LeaseTimes {
    let renewal = |lease: kelpie_core::prober::Lease<'_>| {
        (
            lease.name.to_owned(),
            (lease.renew_time, lease.duration_seconds),
        )
    };
    leases.iter().map(renewal).collect()
}

async fn list_with_kube_rs(client: &Client) -> LeaseTimes {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let list = leases.list(&ListParams::default()).await.unwrap();
    let renewal = |lease: Lease| {
        let spec = lease.spec.unwrap();
        let renewed = spec
            .renew_time
            .map(|time| Time::from_micros(time.0.as_microsecond()));
        (
            lease.metadata.name.unwrap(),
            (renewed, spec.lease_duration_seconds),
        )
    };
    list.items.into_iter().map(renewal).collect()
}

/// Decodes the response of the server in this encoding.
async fn decoded<L: List>(list: L, client: &Client, path: &str, accept: &str) -> L {
    let response = get_raw(client, path, accept).await.unwrap();
    assert_eq!(response.content_type, accept);
    let mut decoder = Decoder::new(list, Some(&response.content_type)).unwrap();
    decoder.push(&response.body).unwrap();
    decoder.finish().unwrap()
}

#[tokio::test]
async fn lists_match_those_of_kube_rs() {
    let control_plane = ControlPlane::start().await.unwrap();
    let client = control_plane.client().await.unwrap();
    write_leases(&client).await;
    write_nodes(&client).await;
    let tenant = tenant(&control_plane.api.kubeconfig(&control_plane.api.admin()));

    tenant.version(deadline()).await.unwrap();
    let mut versions = Vec::new();
    for _ in 0..2 {
        let listed = tenant.leases(deadline()).await.unwrap();
        assert!(listed.start < listed.end);
        versions.push(listed.version.unwrap());
        let found = renewals(&listed.leases);
        assert_eq!(found.len(), 20);
        assert_eq!(found["node-07"], (None, Some(40)));
        assert_eq!(found, list_with_kube_rs(&client).await);
        let json = decoded(LeaseList::default(), &client, LEASES, "application/json").await;
        assert_eq!(listed.leases, json);
    }
    assert!(versions.is_sorted(), "{versions:?}");

    let rules = gardener_nodes();
    let judged = tenant.nodes(&rules, deadline()).await.unwrap();
    let json = NodeList::new(Arc::clone(&rules));
    let json = decoded(json, &client, NODES, "application/json").await;
    assert_eq!(judged.items, json.nodes);
    let nodes = NodeList::<Vec<_>>::collecting(rules);
    let nodes = decoded(nodes, &client, NODES, PROTOBUF).await.nodes;
    let [a, b] = nodes.as_slice() else {
        panic!("{nodes:?}")
    };
    assert_eq!(
        (a.name.as_str(), a.pool.as_deref(), a.unmanaged),
        ("a", Some("pool-a"), false)
    );
    assert!(b.unmanaged && b.conditions[0].is_true && !b.conditions[1].is_true);
    let by_kube: Api<Node> = Api::all(client.clone());
    let created = by_kube
        .get("a")
        .await
        .unwrap()
        .metadata
        .creation_timestamp
        .unwrap();
    assert_eq!(a.created, Time::from_micros(created.0.as_microsecond()));
    assert_eq!(a.conditions[1].reason, "ReadyForUpdate");
}

#[tokio::test]
async fn denied_credentials_and_rotation() {
    let control_plane = ControlPlane::start().await.unwrap();
    let api = &control_plane.api;

    let unknown = api.kubeconfig(&Credentials::Token("not-a-token".into()));
    let unauthenticated = tenant(&unknown);
    let error = unauthenticated.version(deadline()).await.unwrap_err();
    assert!(
        matches!(error, TenantError::Denied { status: 401 }),
        "{error}"
    );

    // Every authenticated user may read the version, but not the leases.
    let unprivileged = tenant(&api.kubeconfig(&api.unprivileged()));
    unprivileged.version(deadline()).await.unwrap();
    let error = unprivileged.leases(deadline()).await.unwrap_err();
    assert!(
        matches!(error, TenantError::Denied { status: 403 }),
        "{error}"
    );
    assert!(error.is_transient());
    let error = unprivileged
        .nodes(&gardener_nodes(), deadline())
        .await
        .unwrap_err();
    assert!(
        matches!(error, TenantError::Denied { status: 403 }),
        "{error}"
    );
    let traffic = unprivileged.take_stats();
    assert_eq!(traffic.statuses, [200, 403, 403]);
    // One for the version, and one for both lists.
    assert_eq!(traffic.connections, 2);

    let rotated = api.kubeconfig(&api.admin());
    tenant(&rotated).leases(deadline()).await.unwrap();

    let certified = api.user("kelpie", &["system:masters"]).unwrap();
    let certified = tenant(&api.kubeconfig(&certified));
    certified.leases(deadline()).await.unwrap();
}

#[tokio::test]
async fn restart_is_tolerated_outage_is_an_error() {
    let mut control_plane = ControlPlane::start().await.unwrap();
    let tenant = tenant(&control_plane.api.kubeconfig(&control_plane.api.admin()));
    tenant.leases(deadline()).await.unwrap();

    // The kept connection dies with the process, and a new one is refused.
    control_plane.api.kill();
    let error = tenant.leases(deadline()).await.unwrap_err();
    assert_eq!(error.failure(), FailureKind::Down, "{error:?}");
    assert!(error.to_string().ends_with("connection refused"), "{error}");

    control_plane.api.restart().await.unwrap();
    tenant.leases(deadline()).await.unwrap();

    // Now the server restarts between two rounds: only the connection is lost.
    control_plane.api.kill();
    control_plane.api.restart().await.unwrap();
    for _ in 0..2 {
        tenant.leases(deadline()).await.unwrap();
        tenant.version(deadline()).await.unwrap();
    }
}
