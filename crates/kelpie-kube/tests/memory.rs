//! The memory that a tenant takes while its lists are decoded, and between rounds.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code: failures should be loud"
)]

#[allow(dead_code, reason = "shared with the other tests")]
#[path = "it/bodies.rs"]
mod bodies;
#[allow(dead_code, reason = "shared with the other tests")]
#[path = "it/kubeconfig_builder.rs"]
mod kubeconfig_builder;
#[allow(dead_code, reason = "shared with the other tests")]
#[path = "it/scripted_server.rs"]
mod scripted_server;

use std::sync::Arc;

use bodies::{JSON, LeaseFixture, PROTOBUF, json_leases, nodes, protobuf_leases, rules};
use kelpie_core::prober::NodeRules;
use kelpie_kube::lists::{Decoder, LeaseList, NodeList};
use kelpie_kube::projection::FieldMask;
use kelpie_kube::tenant::Tenant;
use scripted_server::{ScriptedApiServer, deadline};
use serde::de::DeserializeSeed;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Runs one check after the other, because the heap is that of the whole process.
#[test]
fn tenant_memory_is_bounded() {
    let _profiler = dhat::Profiler::builder().testing().build();
    decoding_takes_result_and_one_item();
    irrelevant_conditions_take_nothing();
    crafted_nodes_keep_little();
    unused_fields_are_skipped();
    idle_tenant_takes_less_than_60_kb();
}

fn futures_are_small(tenant: &Tenant) {
    // The task of a cluster reserves this memory for its whole life.
    let leases = size_of_val(&tenant.leases(deadline()));
    let nodes = size_of_val(&tenant.nodes(&Arc::<NodeRules>::default(), deadline()));
    let version = size_of_val(&tenant.version(deadline()));
    println!("futures: leases {leases} B, nodes {nodes} B, version {version} B");
    for size in [leases, nodes, version] {
        assert!(size < 1_024, "{size}");
    }
}

fn decoding_takes_result_and_one_item() {
    let leases: Vec<_> = (0..5_000)
        .map(|n| LeaseFixture::named(&format!("node-{n:04}")))
        .collect();
    let bodies = [
        (PROTOBUF, protobuf_leases(&leases)),
        (JSON, json_leases(&leases).into_bytes()),
    ];
    for (content_type, body) in bodies {
        let before = dhat::HeapStats::get();
        let mut decoder = Decoder::new(LeaseList::default(), Some(content_type)).unwrap();
        for chunk in body.chunks(8 * 1024) {
            decoder.push(chunk).unwrap();
        }
        let list = decoder.finish().unwrap();
        let after = dhat::HeapStats::get();
        assert_eq!(list.len(), 5_000);
        let held = after.curr_bytes - before.curr_bytes;
        let blocks = after.total_blocks - before.total_blocks;
        let bytes = after.total_bytes - before.total_bytes;
        println!(
            "5,000 leases, {} B as {content_type}: {held} B held, {bytes} B in {blocks} blocks",
            body.len()
        );
        // Two vectors that grow by doubling; each lease takes 16 B and its name.
        assert!(held < 5_000 * 48, "{held}");
        assert!(blocks < 100, "{blocks}");
    }
}

fn irrelevant_conditions_take_nothing() {
    for (content_type, body) in nodes(100, &vec![("X", "False", "Y"); 1_000]) {
        let before = dhat::HeapStats::get().curr_bytes;
        let mut decoder = Decoder::new(NodeList::new(rules()), Some(content_type)).unwrap();
        decoder.push(&body).unwrap();
        let list = decoder.finish().unwrap();
        let held = dhat::HeapStats::get().curr_bytes - before;
        assert_eq!(list.nodes.finish(None).len(), 100);
        println!(
            "100 nodes, {} B as {content_type}: {held} B held",
            body.len()
        );
        // A node and its name; the vector may have capacity for as many again.
        assert!(held < 100 * 2 * 256, "{held}");
    }
}

/// A tenant may write any condition onto its nodes, as long as a name may be, 64 of each node.
fn crafted_nodes_keep_little() {
    let kinds: Vec<_> = (0..64).map(|n| format!("{n:01000}")).collect();
    let conditions: Vec<_> = kinds.iter().map(|kind| (&**kind, "True", "R")).collect();
    for (content_type, body) in nodes(200, &conditions) {
        let before = dhat::HeapStats::get().curr_bytes;
        let mut decoder = Decoder::new(NodeList::new(rules()), Some(content_type)).unwrap();
        decoder.push(&body).unwrap();
        let list = decoder.finish().unwrap();
        let held = dhat::HeapStats::get().curr_bytes - before;
        println!("200 crafted nodes as {content_type}: {held} B held");
        assert!(held < 200 * 2 * 256, "{held}");
        drop(list);
    }
}

/// A Cluster embeds the Shoot, the Seed and the `CloudProfile`: some 100 KB, of which a few bytes
/// are used.
fn unused_fields_are_skipped() {
    let types: Vec<_> = (0..1_000)
        .map(|n| json!({ "name": format!("machine-type-{n:04}"), "cpu": "4", "memory": "16Gi" }))
        .collect();
    let cluster = json!({
        "metadata": { "name": "shoot--a--b", "resourceVersion": "7", "managedFields": types },
        "spec": {
            "cloudProfile": { "spec": { "machineTypes": types } },
            "shoot": {
                "metadata": { "name": "b", "annotations": { "a": "b" } },
                "spec": {
                    "kubernetes": { "version": "1.36.4" },
                    "provider": { "workers": [{ "name": "a", "minimum": 1 }, { "name": "b" }] },
                },
                "status": { "hibernated": false, "conditions": types },
            },
        },
    });
    let text = cluster.to_string();
    let before = dhat::HeapStats::get();
    let mask = FieldMask::new(&[
        &["spec", "shoot", "metadata", "deletionTimestamp"],
        &["spec", "shoot", "spec", "hibernation", "enabled"],
        &["spec", "shoot", "spec", "provider", "workers", "name"],
        &["spec", "shoot", "status", "hibernated"],
    ]);
    let kept = mask.deserialize(&mut serde_json::Deserializer::from_str(&text));
    let kept = kept.unwrap();
    let after = dhat::HeapStats::get();
    let held = after.curr_bytes - before.curr_bytes;
    let blocks = after.total_blocks - before.total_blocks;
    let bytes = after.total_bytes - before.total_bytes;
    println!(
        "a Cluster of {} B: {held} B held, {bytes} B in {blocks} blocks",
        text.len()
    );
    assert_eq!(
        kept["spec"]["shoot"]["spec"]["provider"]["workers"][1]["name"],
        "b"
    );
    assert!(held < 8_192, "{held}");
}

fn idle_tenant_takes_less_than_60_kb() {
    const TENANTS: usize = 20;
    const MAX_BYTES: usize = 60_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let leases: Vec<_> = (0..500)
            .map(|n| LeaseFixture::named(&format!("node-{n:04}")))
            .collect();
        let body: &'static str = json_leases(&leases).leak();
        let server =
            ScriptedApiServer::start(async |mut connection| connection.serve(body).await).await;
        let mut tenants = vec![probed_tenant(&server).await];
        futures_are_small(&tenants[0]);
        let before = dhat::HeapStats::get().curr_bytes;
        for _ in 0..TENANTS {
            tenants.push(probed_tenant(&server).await);
        }
        let both = dhat::HeapStats::get().curr_bytes;
        // The server does not run while these are dropped, so all freed memory is the tenants'.
        drop(tenants.split_off(1));
        let each = (both - dhat::HeapStats::get().curr_bytes) / TENANTS;
        let with_server = (both - before) / TENANTS;
        println!("an idle tenant: {each} B, with the server's side {with_server} B");
        assert!(each < MAX_BYTES, "{each}");
    });
}

/// Returns a tenant after two rounds.
async fn probed_tenant(server: &ScriptedApiServer) -> Tenant {
    let tenant = server.tenant();
    for _ in 0..2 {
        tenant.version(deadline()).await.unwrap();
        let listed = tenant.leases(deadline()).await.unwrap();
        assert_eq!(listed.leases.len(), 500);
    }
    tenant.take_stats();
    tenant
}
