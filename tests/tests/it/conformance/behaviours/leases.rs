//! Leases and nodes.

use anyhow::{Result, ensure};
use kelpie_core::Time;
use kelpie_kube::wire::{Decoder, LeaseList, NodeList};
use serde_json::{Value, json};

use crate::conformance::{Stage, named};

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

pub(super) async fn a_lease_is_taken_renewed_and_lost(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.at(LEASES, "leases"));
    let made = api.post(&path, &lease("leader", 1)).await?;
    let twice = api.post(&path, &lease("leader", 1)).await?;
    let path = format!("{path}/leader");
    let mut own = made.body.clone();
    own["spec"]["renewTime"] = json!("2026-01-01T00:00:02.000001Z");
    own["spec"]["leaseTransitions"] = json!(1);
    own["spec"]["acquireTime"] = json!("2026-01-01T00:00:00.000000Z");
    let renewed = api.put(&path, &own).await?;
    let late = api.put(&path, &own).await?;
    let blind = api.put(&path, &lease("leader", 3)).await?;
    assert_eq!((renewed.status, late.status), (200, 409));
    Ok(json!([
        made.shown(),
        twice.shown(),
        renewed.shown(),
        late.shown(),
        blind.shown()
    ]))
}

pub(super) async fn an_update_makes_what_is_not_there(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.at(LEASES, "leases"));
    let made = api.put(&format!("{path}/new"), &lease("new", 1)).await?;
    let mut gone = lease("gone", 1);
    gone["metadata"]["resourceVersion"] = json!("7");
    let gone = api.put(&format!("{path}/gone"), &gone).await?;
    Ok(json!([made.shown(), gone.status, gone.body["reason"]]))
}

pub(super) async fn protobuf_says_the_same_as_json(stage: Stage) -> Result<Value> {
    let (api, path) = (&stage.admin, stage.at(LEASES, "leases"));
    for second in 1..4 {
        api.post(&path, &lease(&format!("n{second}"), second))
            .await?
            .ok()?;
    }
    let short = named("bare");
    api.post(&path, &short).await?.ok()?;
    let mut seen = Vec::new();
    for accept in [PROTOBUF, "application/json"] {
        let reply = api.accepting(accept).get(&path).await?;
        let mut decoder: Decoder<LeaseList> = Decoder::new(Some(&reply.content_type))?;
        decoder.push(&reply.bytes)?;
        let list = decoder.finish()?;
        ensure!(list.len() == 4, "{list:?}");
        let leases = list.iter().map(|lease| {
            let renewed = lease.renew_time.map(Time::as_micros);
            json!([lease.name, renewed, lease.duration_seconds])
        });
        seen.push(json!([reply.content_type, leases.collect::<Vec<_>>()]));
    }
    assert_eq!(seen[0][1], seen[1][1]);
    Ok(json!(seen))
}

pub(super) async fn nodes_as_protobuf(stage: Stage) -> Result<Value> {
    let (api, name) = (&stage.admin, &stage.namespace);
    let mut node = named(name);
    node["metadata"]["labels"] = json!({ "worker.gardener.cloud/pool": "p", "own": "n" });
    node["status"] = json!({ "conditions": [{
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    let made = api.post("/api/v1/nodes", &node).await?.ok()?;
    let mut seen = vec![json!([made["metadata"], made["status"]["conditions"]])];
    for accept in [PROTOBUF, "application/json"] {
        let path = "/api/v1/nodes?labelSelector=own%3Dn";
        let reply = api.accepting(accept).get(path).await?;
        let mut decoder: Decoder<NodeList> = Decoder::new(Some(&reply.content_type))?;
        decoder.push(&reply.bytes)?;
        let nodes = decoder.finish()?.0;
        let node = nodes.first().map(|node| {
            let conditions = node.conditions.iter();
            let conditions = conditions.map(|c| json!([c.kind, c.is_true, c.reason]));
            json!([node.name, node.pool, conditions.collect::<Vec<_>>()])
        });
        seen.push(json!([reply.content_type, node]));
    }
    assert_eq!(seen[1][1], seen[2][1]);
    Ok(json!(seen))
}
