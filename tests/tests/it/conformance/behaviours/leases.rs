//! Leases and nodes, in both encodings.

use anyhow::{Result, ensure};
use kelpie_core::Time;
use kelpie_core::prober::Node;
use kelpie_kube::lists::{Decoder, LeaseList, NodeList};
use serde_json::{Value, json};

use crate::conformance::{Fixture, named};
use crate::fixture::gardener_nodes;

const LEASES: &str = "coordination.k8s.io/v1";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf, application/json";

fn lease(name: &str, second: u32) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": format!("2026-01-01T00:00:{second:02}.123456Z"),
        },
    })
}

pub(super) async fn acquire_renew_conflict(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.group_path(LEASES, "leases"));
    let created = api.post(&path, &lease("leader", 1)).await?;
    let twice = api.post(&path, &lease("leader", 1)).await?;
    let path = format!("{path}/leader");
    let mut own = created.body.clone();
    own["spec"]["renewTime"] = json!("2026-01-01T00:00:02.000001Z");
    own["spec"]["leaseTransitions"] = json!(1);
    own["spec"]["acquireTime"] = json!("2026-01-01T00:00:00.000000Z");
    let renewed = api.put(&path, &own).await?;
    let stale = api.put(&path, &own).await?;
    let blind = api.put(&path, &lease("leader", 3)).await?;
    assert_eq!((renewed.status, stale.status), (200, 409));
    Ok(json!([
        created.record(),
        twice.record(),
        renewed.record(),
        stale.record(),
        blind.record()
    ]))
}

pub(super) async fn update_creates_missing(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.group_path(LEASES, "leases"));
    let created = api.put(&format!("{path}/new"), &lease("new", 1)).await?;
    let mut gone = lease("gone", 1);
    gone["metadata"]["resourceVersion"] = json!("7");
    let gone = api.put(&format!("{path}/gone"), &gone).await?;
    let other = api.put(&format!("{path}/other"), &lease("name", 1)).await?;
    Ok(json!([
        created.record(),
        gone.status,
        gone.body["reason"],
        other.record()
    ]))
}

pub(super) async fn protobuf_matches_json(fixture: Fixture) -> Result<Value> {
    let (api, path) = (&fixture.admin, fixture.group_path(LEASES, "leases"));
    for second in 1..4 {
        api.post(&path, &lease(&format!("n{second}"), second))
            .await?
            .ok()?;
    }
    let short = named("bare");
    api.post(&path, &short).await?.ok()?;
    let mut records = Vec::new();
    for accept in [PROTOBUF, "application/json"] {
        let response = api.accepting(accept).get(&path).await?;
        let mut decoder: Decoder<LeaseList> =
            Decoder::new(LeaseList::default(), Some(&response.content_type))?;
        decoder.push(&response.bytes)?;
        let list = decoder.finish()?;
        ensure!(list.len() == 4, "{list:?}");
        let leases = list.iter().map(|lease| {
            let renewed = lease.renew_time.map(Time::as_micros);
            json!([lease.name, renewed, lease.duration_seconds])
        });
        records.push(json!([response.content_type, leases.collect::<Vec<_>>()]));
    }
    assert_eq!(records[0][1], records[1][1]);
    Ok(json!(records))
}

pub(super) async fn node_protobuf_matches_json(fixture: Fixture) -> Result<Value> {
    let (api, name) = (&fixture.admin, &fixture.namespace);
    let mut node = named(name);
    node["metadata"]["labels"] = json!({ "worker.gardener.cloud/pool": "p", "own": "n" });
    node["status"] = json!({ "conditions": [{
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    let created = api.post("/api/v1/nodes", &node).await?.ok()?;
    let mut records = vec![json!([
        created["metadata"],
        created["status"]["conditions"]
    ])];
    for accept in [PROTOBUF, "application/json"] {
        let path = "/api/v1/nodes?labelSelector=own%3Dn";
        let response = api.accepting(accept).get(path).await?;
        let mut decoder: Decoder<NodeList<Vec<Node>>> = Decoder::new(
            NodeList::collecting(gardener_nodes()),
            Some(&response.content_type),
        )?;
        decoder.push(&response.bytes)?;
        let nodes = decoder.finish()?.nodes;
        let node = nodes.first().map(|node| {
            let conditions = node.conditions.iter();
            let conditions = conditions.map(|c| json!([c.kind, c.is_true, c.reason]));
            json!([node.name, node.pool, conditions.collect::<Vec<_>>()])
        });
        records.push(json!([response.content_type, node]));
    }
    assert_eq!(records[1][1], records[2][1]);
    Ok(json!(records))
}
