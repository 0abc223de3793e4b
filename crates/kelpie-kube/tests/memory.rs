//! What a tenant costs: while its lists are read, and between rounds.
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
#[path = "it/kubeconfig.rs"]
mod kubeconfig;
#[allow(dead_code, reason = "shared with the other tests")]
#[path = "it/server.rs"]
mod server;

use bodies::{JSON, Lease, PROTOBUF, json_leases, nodes, protobuf_leases};
use kelpie_kube::tenant::{Haste, Tenant};
use kelpie_kube::wire::{Decoder, LeaseList, NodeList};
use server::{Server, deadline};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// One after the other: the heap is the whole process's.
#[test]
fn a_tenant_costs_little() {
    let _profiler = dhat::Profiler::builder().testing().build();
    decoding_takes_the_compact_result_and_one_item();
    conditions_that_cannot_matter_take_nothing();
    an_idle_tenant_takes_less_than_60_kb();
}

fn room_in_a_task_is_small(tenant: &mut Tenant) {
    // Each cluster's task has it for as long as it lives.
    let probe = size_of_val(&tenant.probe(Haste::Urgent, deadline()));
    let nodes = size_of_val(&tenant.nodes(deadline()));
    println!("a task has {probe} B for a probe, {nodes} B for nodes");
    assert!(probe < 2_048, "{probe}");
    assert!(nodes < 1_024, "{nodes}");
}

fn decoding_takes_the_compact_result_and_one_item() {
    let leases: Vec<_> = (0..5_000)
        .map(|n| Lease::named(&format!("node-{n:04}")))
        .collect();
    let bodies = [
        (PROTOBUF, protobuf_leases(&leases)),
        (JSON, json_leases(&leases).into_bytes()),
    ];
    for (form, body) in bodies {
        let before = dhat::HeapStats::get();
        let mut decoder = Decoder::<LeaseList>::new(Some(form)).unwrap();
        for piece in body.chunks(8 * 1024) {
            decoder.push(piece).unwrap();
        }
        let list = decoder.finish().unwrap();
        let after = dhat::HeapStats::get();
        assert_eq!(list.len(), 5_000);
        let held = after.curr_bytes - before.curr_bytes;
        let blocks = after.total_blocks - before.total_blocks;
        let bytes = after.total_bytes - before.total_bytes;
        println!(
            "5,000 leases, {} B as {form}: {held} B held, {bytes} B in {blocks} allocations",
            body.len()
        );
        // Two arenas that double; each lease has 16 B and its name.
        assert!(held < 5_000 * 48, "{held}");
        assert!(blocks < 100, "{blocks}");
    }
}

fn conditions_that_cannot_matter_take_nothing() {
    for (form, body) in nodes(100, &vec![("X", "False", "Y"); 1_000]) {
        let before = dhat::HeapStats::get().curr_bytes;
        let mut decoder = Decoder::<NodeList>::new(Some(form)).unwrap();
        decoder.push(&body).unwrap();
        let list = decoder.finish().unwrap();
        let held = dhat::HeapStats::get().curr_bytes - before;
        assert_eq!(list.0.len(), 100);
        println!("100 nodes, {} B as {form}: {held} B held", body.len());
        // A node and its name; the list may have room for as many again.
        assert!(held < 100 * 2 * 256, "{held}");
    }
}

fn an_idle_tenant_takes_less_than_60_kb() {
    const TENANTS: usize = 20;
    const LARGEST: usize = 60_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let leases: Vec<_> = (0..500)
            .map(|n| Lease::named(&format!("node-{n:04}")))
            .collect();
        let body: &'static str = json_leases(&leases).leak();
        let server = Server::start(async |mut wire| wire.serve(body).await).await;
        let mut tenants = vec![probed(&server).await];
        room_in_a_task_is_small(&mut tenants[0]);
        let before = dhat::HeapStats::get().curr_bytes;
        for _ in 0..TENANTS {
            tenants.push(probed(&server).await);
        }
        let both = dhat::HeapStats::get().curr_bytes;
        // The server cannot take part while these are dropped: what goes is the tenants' alone.
        drop(tenants.split_off(1));
        let each = (both - dhat::HeapStats::get().curr_bytes) / TENANTS;
        let with_server = (both - before) / TENANTS;
        println!("an idle tenant: {each} B, with the server's side {with_server} B");
        assert!(each < LARGEST, "{each}");
    });
}

async fn probed(server: &Server) -> Tenant {
    let mut tenant = server.tenant();
    for _ in 0..2 {
        let probed = tenant.probe(Haste::Routine, deadline()).await;
        assert_eq!(probed.leases.unwrap().unwrap().leases.len(), 500);
    }
    tenant.take_traffic();
    tenant
}
