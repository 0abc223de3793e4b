//! Which services come back.

use kelpie_core::weeder::Readiness::{All, Any};
use kelpie_core::weeder::Swing::{FoundReady, Gone, Lost, Recovered};
use kelpie_core::weeder::{Readiness, ServiceRef, Services, Slice, Swing};

fn slice(generation: i64, ready: u32, endpoints: u32) -> Slice {
    Slice {
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

/// Services that were listed once, with these slices.
fn listed(readiness: Readiness, slices: &[(&str, Slice)]) -> Services {
    let mut services = Services::new(readiness);
    list(&mut services, slices);
    services
}

fn list(services: &mut Services, slices: &[(&str, Slice)]) -> Vec<Swing> {
    services.begin_list();
    for (name, slice) in slices {
        assert_eq!(services.put("shoot", name, slice.clone()), []);
    }
    services.end_list()
}

#[test]
fn a_service_that_is_ready_at_start_is_found_so_once_the_list_is_complete() {
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
fn not_ready_to_ready_is_a_recovery_and_ready_to_ready_is_nothing() {
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
fn all_slices_of_a_service_count_together() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1)), ("b", slice(1, 0, 1))]);
    assert_eq!(services.put("shoot", "a", slice(2, 0, 1)), [Lost(etcd())]);
    let back = services.put("shoot", "b", slice(2, 1, 1));
    assert_eq!(back, [Recovered(etcd())]);
    assert_eq!(services.put("shoot", "a", slice(3, 1, 1)), []);
    assert_eq!(services.remove("shoot", "b"), [], "one slice is left");

    let mut services = listed(All, &[("a", slice(1, 1, 1)), ("b", slice(1, 1, 1))]);
    assert_eq!(services.put("shoot", "a", slice(2, 0, 1)), [Lost(etcd())]);
    let back = services.put("shoot", "a", slice(3, 1, 1));
    assert_eq!(back, [Recovered(etcd())]);
}

#[test]
fn services_of_one_name_in_two_namespaces_are_two() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1))]);
    let other = services.put("other", "a", slice(1, 1, 1));
    let reference = ServiceRef {
        namespace: "other".into(),
        name: "etcd".into(),
    };
    assert_eq!(other, [Recovered(reference)]);
}

#[test]
fn a_service_first_seen_ready_while_we_run_has_recovered_and_a_deleted_one_is_gone() {
    let mut services = listed(Any, &[]);
    let seen = services.put("shoot", "a", slice(1, 1, 1));
    assert_eq!(seen, [Recovered(etcd())]);
    assert_eq!(services.remove("shoot", "a"), [Gone(etcd())]);
    assert_eq!(services.remove("shoot", "a"), []);
    let seen = services.put("shoot", "a", slice(1, 1, 1));
    assert_eq!(seen, [Recovered(etcd())]);
}

#[test]
fn a_slice_that_moves_to_another_service_leaves_the_first() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1))]);
    let moved = Slice {
        service: "api".into(),
        ..slice(2, 1, 1)
    };
    let api = ServiceRef {
        name: "api".into(),
        ..etcd()
    };
    let swings = services.put("shoot", "a", moved);
    assert_eq!(swings, [Recovered(api), Gone(etcd())]);
}

/// What was missed between two lists shows in the generations.
#[test]
fn a_new_list_tells_what_was_missed_and_nothing_else() {
    let other = |generation| Slice {
        uid: "other".into(),
        ..slice(generation, 1, 1)
    };
    for (what, readiness, before, after, expected) in [
        ("nothing changed", Any, slice(7, 1, 1), slice(7, 1, 1), None),
        (
            "one change cannot hide an outage",
            Any,
            slice(7, 1, 1),
            slice(8, 2, 2),
            None,
        ),
        (
            "two changes can",
            Any,
            slice(7, 1, 1),
            slice(9, 1, 1),
            Some(Recovered(etcd())),
        ),
        (
            "it went",
            Any,
            slice(7, 1, 1),
            slice(8, 0, 1),
            Some(Lost(etcd())),
        ),
        (
            "it came",
            Any,
            slice(7, 0, 1),
            slice(8, 1, 1),
            Some(Recovered(etcd())),
        ),
        (
            "it was made anew",
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
        let told = list(&mut services, &[("a", after)]);
        assert_eq!(told, Vec::from_iter(expected), "{what}");
    }
}

#[test]
fn one_slice_that_stayed_ready_proves_that_any_endpoint_was_there() {
    let both = [("a", slice(3, 1, 1)), ("b", slice(3, 1, 1))];
    let mut services = listed(Any, &both);
    let changed = [("a", slice(9, 1, 1)), ("b", slice(3, 1, 1))];
    assert_eq!(list(&mut services, &changed), []);
    let mut services = listed(All, &both);
    assert_eq!(list(&mut services, &changed), [Recovered(etcd())]);
    // A slice that was added and never changed hid nothing.
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
fn half_a_list_says_nothing_and_one_that_begins_again_starts_over() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1)), ("b", slice(1, 0, 1))]);
    services.begin_list();
    assert_eq!(services.put("shoot", "b", slice(1, 0, 1)), []);
    assert_eq!(services.remove("shoot", "a"), [], "not yet");
    services.begin_list();
    assert_eq!(services.put("shoot", "b", slice(1, 0, 1)), []);
    assert_eq!(services.end_list(), [Lost(etcd())]);
}

/// A long list comes in pages, and may break off between two of them.
#[test]
fn a_list_that_breaks_off_hides_nothing_from_the_next() {
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
    for (what, [first, second], expected) in cases {
        let mut services = listed(Any, &[("a", slice(7, 1, 1))]);
        services.begin_list();
        assert_eq!(services.put("shoot", "a", first), []);
        let told = list(&mut services, &[("a", second)]);
        assert_eq!(told, Vec::from_iter(expected), "{what}");
    }
}

#[test]
fn a_slice_that_a_broken_list_showed_first_proves_nothing_about_the_time_before_it() {
    let mut services = listed(Any, &[("a", slice(3, 1, 1))]);
    services.begin_list();
    assert_eq!(services.put("shoot", "b", slice(1, 1, 1)), []);
    let told = list(&mut services, &[("b", slice(1, 1, 1))]);
    assert_eq!(told, [Recovered(etcd())]);
}

#[test]
fn a_slice_that_went_while_a_list_came_in_proves_nothing() {
    let mut services = listed(Any, &[("a", slice(1, 1, 1))]);
    services.begin_list();
    assert_eq!(services.put("shoot", "a", slice(1, 1, 1)), []);
    assert_eq!(services.remove("shoot", "a"), []);
    assert_eq!(services.put("shoot", "a", slice(1, 1, 1)), []);
    assert_eq!(services.end_list(), [Recovered(etcd())]);
}
