//! Tenants on a real API server: what is read, and what is said when it cannot be.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kelpie_core::Time;
use kelpie_e2e::{ControlPlane, Credentials, get};
use kelpie_kube::kubeconfig::Access;
use kelpie_kube::tenant::{Haste, Keeping, Tenant, TenantError};
use kelpie_kube::wire::{Decoder, LeaseList, List, NodeList};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{from_value, json};
use tokio::time::Instant;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// What is used of a lease, by node.
type Renewals = BTreeMap<String, (Option<Time>, Option<i32>)>;

fn tenant(kubeconfig: &str) -> Tenant {
    let access = Access::from_kubeconfig(kubeconfig.as_bytes()).unwrap();
    Tenant::new(access, Keeping::Kept)
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

async fn write_leases(client: &Client) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    for number in 0..20 {
        let name = format!("node-{number:02}");
        // One that was never renewed.
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

fn renewals(leases: &LeaseList) -> Renewals {
    let renewal = |lease: kelpie_core::Lease<'_>| {
        (
            lease.name.to_owned(),
            (lease.renew_time, lease.duration_seconds),
        )
    };
    leases.iter().map(renewal).collect()
}

async fn by_kube(client: &Client) -> Renewals {
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

/// What the server says in this encoding, decoded.
async fn decoded<L: List>(client: &Client, path: &str, accept: &str) -> L {
    let answer = get(client, path, accept).await.unwrap();
    assert_eq!(answer.content_type, accept);
    let mut decoder = Decoder::new(Some(&answer.content_type)).unwrap();
    decoder.push(&answer.body).unwrap();
    decoder.finish().unwrap()
}

#[tokio::test]
async fn leases_and_nodes_are_those_of_any_other_client() {
    let plane = ControlPlane::start().await.unwrap();
    let client = plane.client().await.unwrap();
    write_leases(&client).await;
    write_nodes(&client).await;
    let mut tenant = tenant(&plane.api.kubeconfig(&plane.api.admin()));

    for haste in [Haste::Routine, Haste::Urgent] {
        let probed = tenant.probe(haste, deadline()).await;
        probed.version.unwrap();
        let listed = probed.leases.unwrap().unwrap();
        assert!(listed.start < listed.end);
        let found = renewals(&listed.leases);
        assert_eq!(found.len(), 20);
        assert_eq!(found["node-07"], (None, Some(40)));
        assert_eq!(found, by_kube(&client).await);
        let json: LeaseList = decoded(&client, LEASES, "application/json").await;
        assert_eq!(listed.leases, json);
    }

    let nodes = tenant.nodes(deadline()).await.unwrap();
    let json: NodeList = decoded(&client, "/api/v1/nodes", "application/json").await;
    assert_eq!(nodes, json.0);
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
async fn refused_credentials_are_told_apart_and_rotated_ones_work_at_once() {
    let plane = ControlPlane::start().await.unwrap();
    let api = &plane.api;

    let unknown = api.kubeconfig(&Credentials::Token("not-a-token".into()));
    let mut nobody = tenant(&unknown);
    let probed = nobody.probe(Haste::Routine, deadline()).await;
    assert!(matches!(
        probed.version,
        Err(TenantError::Denied { status: 401 })
    ));
    assert!(probed.leases.is_none());

    // Everybody who is known may read the version, not everybody the leases.
    let mut stranger = tenant(&api.kubeconfig(&api.stranger()));
    let probed = stranger.probe(Haste::Routine, deadline()).await;
    probed.version.unwrap();
    let error = probed.leases.unwrap().unwrap_err();
    assert!(
        matches!(error, TenantError::Denied { status: 403 }),
        "{error}"
    );
    assert!(error.is_transient());
    let error = stranger.nodes(deadline()).await.unwrap_err();
    assert!(
        matches!(error, TenantError::Denied { status: 403 }),
        "{error}"
    );
    let traffic = stranger.take_traffic();
    assert_eq!(traffic.statuses, [200, 403, 403]);
    assert_eq!(traffic.connections, 1);

    let rotated = api.kubeconfig(&api.admin());
    let probed = tenant(&rotated).probe(Haste::Routine, deadline()).await;
    probed.leases.unwrap().unwrap();

    let certified = api.user("kelpie", &["system:masters"]).unwrap();
    let mut certified = tenant(&api.kubeconfig(&certified));
    let probed = certified.probe(Haste::Routine, deadline()).await;
    probed.leases.unwrap().unwrap();
}

#[tokio::test]
async fn a_restart_between_rounds_is_no_failure_and_an_outage_is_one() {
    let mut plane = ControlPlane::start().await.unwrap();
    let mut tenant = tenant(&plane.api.kubeconfig(&plane.api.admin()));
    tenant.version(deadline()).await.unwrap();

    // The kept connection dies with the process; the round's fresh one meets nobody.
    plane.api.go_down();
    let error = tenant.version(deadline()).await.unwrap_err();
    assert!(matches!(error, TenantError::Connect(_)), "{error:?}");
    assert!(error.to_string().ends_with("connection refused"), "{error}");

    plane.api.come_back().await.unwrap();
    let probed = tenant.probe(Haste::Routine, deadline()).await;
    probed.leases.unwrap().unwrap();

    // Now it dies and comes back between two rounds: only the connection is gone.
    plane.api.go_down();
    plane.api.come_back().await.unwrap();
    for haste in [Haste::Routine, Haste::Urgent] {
        let probed = tenant.probe(haste, deadline()).await;
        probed.version.unwrap();
        probed.leases.unwrap().unwrap();
    }
}
