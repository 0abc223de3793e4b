//! The recoveries of services.

use kelpie_core::weeder::ReadinessRule::{All, Any};
use kelpie_core::weeder::ServiceEvent::{FoundReady, Gone, Lost, Recovered};
use kelpie_core::weeder::{EndpointSlice, ReadinessRule, ServiceEvent, ServiceRef, Services};

fn slice(generation: i64, ready: u32, endpoints: u32) -> EndpointSlice {
    EndpointSlice {
        service: "etcd".into(),
        uid: "uid".into(),
        generation,
        endpoints,
        ready,
    }
}

fn etcd() -> ServiceRef {
    ServiceRef {
        namespace: "shoot".into(),
        name: "etcd".into(),
    }
}

/// Returns services after one complete list of these slices.
fn listed(readiness: ReadinessRule, slices: &[(&str, EndpointSlice)]) -> Services {
    let mut services = Services::new(readiness);
    list(&mut services, slices);
    services
}

fn list(services: &mut Services, slices: &[(&str, EndpointSlice)]) -> Vec<ServiceEvent> {
    services.begin_list();
    for (name, slice) in slices {
        assert_eq!(services.put("shoot", name, slice.clone()), []);
    }
    services.end_list()
}

#[test]
fn ready_service_is_found_by_first_list() {
    for (readiness, slices, is_ready) in [
        (Any, &[("a", slice(1, 1, 1))][..], true),
        (Any, &[("a", slice(1, 0, 3))], false),
        (Any, &[("a", slice(1, 0, 0))], false),
        (Any, &[("a", slice(1, 0, 0)), ("b", slice(1, 1, 9))], true),
        (All, &[("a", slice(1, 2, 2))], true),
        (All, &[("a", slice(1, 0, 0))], false),
        (All, &[("a", slice(1, 0, 0)), ("b", slice(1, 2, 2))], true),
        (All, &[("a", slice(1, 2, 2)), ("b", slice(1, 1, 2))], false),
    ] {
        let mut services = Services::new(readiness);
        let expected = is_ready.then(|| FoundReady(etcd()));
        let found = list(&mut services, slices);
        assert_eq!(found, Vec::from_iter(expected), "{slices:?}");
    }
}

#[test]
fn only_unready_to_ready_is_a_recovery() {
    let mut services = listed(Any, &[("a", slice(1, 0, 3))]);
    let mut put = |slice| services.put("shoot", "a", slice);
    assert_eq!(put(slice(2, 1, 3)), [Recovered(etcd())]);
    assert_eq!(put(slice(3, 2, 3)), []);
    assert_eq!(put(slice(4, 3, 3)), []);
    assert_eq!(put(slice(5, 0, 3)), [Lost(etcd())]);
    assert_eq!(put(slice(6, 0, 0)), []);
    assert_eq!(put(slice(7, 1, 1)), [Recovered(etcd())]);
}

#[test]
fn slices_of_a_service_count_together() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1)), ("b", slice(1, 0, 1))]);
    assert_eq!(services.put("shoot", "a", slice(2, 0, 1)), [Lost(etcd())]);
    let events = services.put("shoot", "b", slice(2, 1, 1));
    assert_eq!(events, [Recovered(etcd())]);
    assert_eq!(services.put("shoot", "a", slice(3, 1, 1)), []);
    assert_eq!(services.remove("shoot", "b"), [], "one slice is left");

    let mut services = listed(All, &[("a", slice(1, 1, 1)), ("b", slice(1, 1, 1))]);
    assert_eq!(services.put("shoot", "a", slice(2, 0, 1)), [Lost(etcd())]);
    let events = services.put("shoot", "a", slice(3, 1, 1));
    assert_eq!(events, [Recovered(etcd())]);
}

#[test]
fn namespaces_separate_services() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1))]);
    let other = services.put("other", "a", slice(1, 1, 1));
    let reference = ServiceRef {
        namespace: "other".into(),
        name: "etcd".into(),
    };
    assert_eq!(other, [Recovered(reference)]);
}

#[test]
fn new_ready_service_has_recovered() {
    let mut services = listed(Any, &[]);
    let events = services.put("shoot", "a", slice(1, 1, 1));
    assert_eq!(events, [Recovered(etcd())]);
    assert_eq!(services.remove("shoot", "a"), [Gone(etcd())]);
    assert_eq!(services.remove("shoot", "a"), []);
    let events = services.put("shoot", "a", slice(1, 1, 1));
    assert_eq!(events, [Recovered(etcd())]);
}

#[test]
fn slice_can_move_to_another_service() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1))]);
    let moved = EndpointSlice {
        service: "api".into(),
        ..slice(2, 1, 1)
    };
    let api = ServiceRef {
        name: "api".into(),
        ..etcd()
    };
    let events = services.put("shoot", "a", moved);
    assert_eq!(events, [Recovered(api), Gone(etcd())]);
}

/// The generations show the changes that were missed between two lists.
#[test]
fn new_list_reports_missed_changes() {
    let other = |generation| EndpointSlice {
        uid: "other".into(),
        ..slice(generation, 1, 1)
    };
    for (case, readiness, before, after, expected) in [
        ("nothing changed", Any, slice(7, 1, 1), slice(7, 1, 1), None),
        (
            "one change cannot hide an outage",
            Any,
            slice(7, 1, 1),
            slice(8, 2, 2),
            None,
        ),
        (
            "two changes can hide an outage",
            Any,
            slice(7, 1, 1),
            slice(9, 1, 1),
            Some(Recovered(etcd())),
        ),
        (
            "it is no longer ready",
            Any,
            slice(7, 1, 1),
            slice(8, 0, 1),
            Some(Lost(etcd())),
        ),
        (
            "it became ready",
            Any,
            slice(7, 0, 1),
            slice(8, 1, 1),
            Some(Recovered(etcd())),
        ),
        (
            "it was recreated",
            Any,
            slice(1, 1, 1),
            other(1),
            Some(Recovered(etcd())),
        ),
        (
            "all stayed ready",
            All,
            slice(7, 2, 2),
            slice(8, 3, 3),
            None,
        ),
        (
            "not all can have stayed ready",
            All,
            slice(7, 2, 2),
            slice(9, 2, 2),
            Some(Recovered(etcd())),
        ),
    ] {
        let mut services = listed(readiness, &[("a", before)]);
        let events = list(&mut services, &[("a", after)]);
        assert_eq!(events, Vec::from_iter(expected), "{case}");
    }
}

#[test]
fn one_kept_slice_proves_any_readiness() {
    let both = [("a", slice(3, 1, 1)), ("b", slice(3, 1, 1))];
    let mut services = listed(Any, &both);
    let changed = [("a", slice(9, 1, 1)), ("b", slice(3, 1, 1))];
    assert_eq!(list(&mut services, &changed), []);
    let mut services = listed(All, &both);
    assert_eq!(list(&mut services, &changed), [Recovered(etcd())]);
    // A slice that was added and never changed hides no outage.
    let mut services = listed(All, &both[..1]);
    let added = [("a", slice(3, 1, 1)), ("b", slice(1, 1, 1))];
    assert_eq!(list(&mut services, &added), []);
    // But it proves nothing about the time before it.
    let mut services = listed(Any, &both[..1]);
    assert_eq!(
        list(&mut services, &[("b", slice(1, 1, 1))]),
        [Recovered(etcd())]
    );
}

#[test]
fn incomplete_list_reports_nothing() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1)), ("b", slice(1, 0, 1))]);
    services.begin_list();
    assert_eq!(services.put("shoot", "b", slice(1, 0, 1)), []);
    assert_eq!(
        services.remove("shoot", "a"),
        [],
        "the list is not complete"
    );
    services.begin_list();
    assert_eq!(services.put("shoot", "b", slice(1, 0, 1)), []);
    assert_eq!(services.end_list(), [Lost(etcd())]);
}

/// A long list comes in pages, and may be interrupted between two of them.
#[test]
fn interrupted_list_hides_no_outage() {
    let cases = [
        ("nothing changed", [slice(7, 1, 1), slice(7, 1, 1)], None),
        (
            "an outage before the first list",
            [slice(9, 1, 1), slice(9, 1, 1)],
            Some(Recovered(etcd())),
        ),
        (
            "an outage that the first list shows",
            [slice(8, 0, 1), slice(9, 1, 1)],
            Some(Recovered(etcd())),
        ),
        (
            "an outage between the lists",
            [slice(7, 1, 1), slice(9, 1, 1)],
            Some(Recovered(etcd())),
        ),
        (
            "one change before each list cannot hide an outage",
            [slice(8, 1, 2), slice(9, 1, 3)],
            None,
        ),
    ];
    for (case, [first, second], expected) in cases {
        let mut services = listed(Any, &[("a", slice(7, 1, 1))]);
        services.begin_list();
        assert_eq!(services.put("shoot", "a", first), []);
        let events = list(&mut services, &[("a", second)]);
        assert_eq!(events, Vec::from_iter(expected), "{case}");
    }
}

#[test]
fn slice_new_in_interrupted_list_proves_nothing() {
    let mut services = listed(Any, &[("a", slice(3, 1, 1))]);
    services.begin_list();
    assert_eq!(services.put("shoot", "b", slice(1, 1, 1)), []);
    let events = list(&mut services, &[("b", slice(1, 1, 1))]);
    assert_eq!(events, [Recovered(etcd())]);
}

#[test]
fn slice_removed_during_list_proves_nothing() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1))]);
    services.begin_list();
    assert_eq!(services.put("shoot", "a", slice(1, 1, 1)), []);
    assert_eq!(services.remove("shoot", "a"), []);
    assert_eq!(services.put("shoot", "a", slice(1, 1, 1)), []);
    assert_eq!(services.end_list(), [Recovered(etcd())]);
}
