//! Lists of leases and nodes, decoded from whatever comes.

use kelpie_core::Time;
use kelpie_kube::wire::{Decoder, LeaseList, List, NodeList, WireError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::bodies::{
    JSON, Lease, PROTOBUF, REAL_LEASES, REAL_NODES, bytes, envelope, json_leases, json_list,
    protobuf_leases, varint,
};

/// Decodes `body`, cut at `cuts`.
fn decode<L: List>(content_type: &str, body: &[u8], cuts: &[usize]) -> Result<L, WireError> {
    let mut decoder = Decoder::new(Some(content_type))?;
    let mut begin = 0;
    for cut in cuts.iter().copied().chain([body.len()]) {
        decoder.push(&body[begin..cut])?;
        begin = cut;
    }
    decoder.finish()
}

fn leases(content_type: &str, body: &[u8]) -> Result<LeaseList, WireError> {
    decode(content_type, body, &[])
}

fn written(list: &LeaseList) -> Vec<Lease> {
    list.iter()
        .map(|lease| Lease {
            name: lease.name.to_owned(),
            micros: lease.renew_time.map(Time::as_micros),
            seconds: lease.duration_seconds,
        })
        .collect()
}

#[test]
fn what_a_real_server_wrote_is_read_in_both_encodings() {
    let [protobuf, json] = REAL_LEASES.map(|(form, body)| leases(form, body).unwrap());
    assert_eq!(protobuf, json);
    let names: Vec<_> = protobuf.iter().map(|lease| lease.name).collect();
    assert_eq!(names, ["node-a", "node-b", "node-c"]);
    let all = written(&protobuf);
    assert_eq!(all[0].micros, Some(1_790_000_000_123_456));
    assert_eq!(all[0].seconds, Some(40));
    assert_eq!((all[2].micros, all[2].seconds), (None, Some(8)));

    let [protobuf, json] = REAL_NODES.map(|(form, body)| decode::<NodeList>(form, body, &[]));
    let (protobuf, json) = (protobuf.unwrap(), json.unwrap());
    assert_eq!(protobuf, json);
    let [a, b] = protobuf.0.as_slice() else {
        panic!("{protobuf:?}")
    };
    assert_eq!(
        (a.name.as_str(), a.pool.as_deref()),
        ("node-a", Some("pool-1"))
    );
    assert!(!a.unmanaged && b.unmanaged && b.pool.is_none());
    assert!(a.created > Time::from_unix(1_700_000_000, 0));
    // Its disk has no pressure.
    let [update] = a.conditions.as_slice() else {
        panic!("{a:?}")
    };
    assert_eq!(
        (update.kind.as_str(), update.is_true),
        ("InPlaceUpdate", true)
    );
    assert_eq!(update.reason, "ReadyForUpdate");
}

/// Beginnings of `body` that pass for the whole list.
fn whole_enough<L: List + PartialEq + std::fmt::Debug>(form: &str, body: &[u8]) -> usize {
    let whole: L = decode(form, body, &[]).unwrap();
    let lists = (0..body.len()).filter_map(|length| decode(form, &body[..length], &[]).ok());
    lists.inspect(|list: &L| assert_eq!(*list, whole)).count()
}

#[test]
fn a_real_list_that_is_cut_off_is_an_error() {
    // Only what is behind the list may be missing: the line's end, two empty fields of two bytes.
    for (form, body) in REAL_LEASES {
        let expected = if form == JSON { 1 } else { 2 };
        assert_eq!(whole_enough::<LeaseList>(form, body), expected, "{form}");
    }
    for (form, body) in REAL_NODES {
        let expected = if form == JSON { 1 } else { 2 };
        assert_eq!(whole_enough::<NodeList>(form, body), expected, "{form}");
    }
}

#[test]
fn a_real_list_cut_in_two_anywhere_is_the_same_list() {
    for (form, body) in REAL_LEASES {
        let whole = leases(form, body).unwrap();
        for cut in 0..body.len() {
            assert_eq!(
                decode(form, body, &[cut]),
                Ok(whole.clone()),
                "{form} {cut}"
            );
        }
    }
}

fn any_lease() -> impl Strategy<Value = Lease> {
    let micros = prop::option::of(-60_000_000_000_000_000..200_000_000_000_000_000_i64);
    let seconds = prop::option::of(any::<i32>().prop_filter("none", |s| *s != i32::MIN));
    ("[a-z0-9][a-z0-9.-]{0,252}", micros, seconds).prop_map(|(name, micros, seconds)| Lease {
        name,
        micros,
        seconds,
    })
}

proptest! {
    #[test]
    fn both_encodings_in_any_pieces_give_what_was_written(
        all in vec(any_lease(), 0..20),
        cuts in vec(any::<Index>(), 0..40),
    ) {
        // Kubernetes writes the time that is none as nothing.
        let all: Vec<Lease> = all.into_iter().filter(|lease| lease.micros != Some(0)).collect();
        let bodies = [(PROTOBUF, protobuf_leases(&all)), (JSON, json_leases(&all).into_bytes())];
        for (form, body) in bodies {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len())).collect();
            cuts.sort_unstable();
            let list: LeaseList = decode(form, &body, &cuts).unwrap();
            prop_assert_eq!(list.len(), all.len());
            prop_assert_eq!(written(&list), all.clone());
        }
    }

    #[test]
    fn any_bytes_end_in_a_list_or_an_error(
        body in vec(any::<u8>(), 0..300),
        tame in "[\\[\\]{}\",:a-z\\\\0-9 ]{0,300}",
        cut in any::<Index>(),
    ) {
        let enveloped = envelope("LeaseList", &body);
        let item = envelope("NodeList", &bytes(2, &body));
        let around = json_list(std::slice::from_ref(&tame));
        for body in [&body[..], &enveloped, &item, tame.as_bytes(), around.as_bytes()] {
            let cuts = if body.is_empty() { vec![] } else { vec![cut.index(body.len())] };
            for form in [PROTOBUF, JSON] {
                let _ = decode::<LeaseList>(form, body, &cuts);
                let _ = decode::<NodeList>(form, body, &cuts);
            }
        }
    }

    #[test]
    fn a_real_list_with_wrong_bytes_ends_in_a_list_or_an_error(
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        for (form, body) in REAL_LEASES.into_iter().chain(REAL_NODES) {
            let mut body = body.to_vec();
            for (at, byte) in &changes {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            let _ = decode::<LeaseList>(form, &body, &[]);
            let _ = decode::<NodeList>(form, &body, &[]);
        }
    }
}

#[test]
fn an_empty_list_is_a_list() {
    assert!(
        leases(PROTOBUF, &envelope("LeaseList", b""))
            .unwrap()
            .is_empty()
    );
    assert!(leases(JSON, json_list(&[]).as_bytes()).unwrap().is_empty());
    let null = br#"{"items":null,"kind":"LeaseList"}"#;
    assert!(
        leases("Application/JSON; charset=utf-8", null)
            .unwrap()
            .is_empty()
    );
}

/// Each body is refused, and the message says what it should.
fn assert_refused(form: &str, cases: &[(Vec<u8>, &str)]) {
    for (body, expected) in cases {
        let error = leases(form, body).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected}, got {error}");
        assert!(error.len() < 250, "{error}");
    }
}

fn named(name: &str) -> Vec<Lease> {
    vec![Lease::named("a"), Lease::named(name)]
}

#[test]
fn another_content_type_is_refused() {
    assert_refused(
        "text/html",
        &[(vec![], "has content type \"text/html\": expected")],
    );
    assert_refused("", &[(vec![], "has content type \"\": expected")]);
}

#[test]
fn protobuf_that_is_no_whole_list_is_refused_and_the_reason_named() {
    let list = |list: &[u8]| envelope("LeaseList", list);
    let of = |name| protobuf_leases(&named(name));
    let cases = [
        (list(&bytes(1, &bytes(3, b"token"))), "only the first page"),
        (b"k8s!".to_vec(), "does not begin as protobuf"),
        (
            envelope("Status", b""),
            "of kind \"Status\": expected LeaseList",
        ),
        (
            of(&"a".repeat(254)),
            "item 1: its name is longer than 253 bytes",
        ),
        (of("a\u{7}b"), "item 1: \"a\\u{7}b\" is no name"),
        (of(""), "item 1: it has no name"),
        (
            list(&bytes(2, &bytes(1, &[0x0a, 9]))),
            "item 0: it is cut off",
        ),
        (list(&[0x12, 9]), "longer than the list"),
        (list(&[0x13]), "no valid type"),
        (list(&[0x00, 0x00]), "no valid number"),
        (list(&[0xff; 12]), "number is too long"),
        ([list(b""), bytes(2, b"")].concat(), "several lists"),
        ([b"k8s\0".to_vec(), bytes(2, b"")].concat(), "no kind"),
        ([list(b""), bytes(3, b"gzip")].concat(), "compressed"),
        (list(&bytes(1, &vec![0; 70_000])), "metadata is too long"),
        (
            list(&bytes(2, &vec![0; 70_000])),
            "one item in bytes is more than 65536",
        ),
        (b"k8s\0".to_vec(), "ends too early"),
        (vec![], "ends too early"),
    ];
    assert_refused(PROTOBUF, &cases);
}

#[test]
fn json_that_is_no_whole_list_is_refused_and_the_reason_named() {
    let good = json_leases(&[Lease::named("a")]);
    let but = |find: &str, put: &str| good.replacen(find, put, 1).into_bytes();
    let of = |name| json_leases(&named(name)).into_bytes();
    let text = |text: &str| text.as_bytes().to_vec();
    let cases = [
        (
            but(r#""7""#, r#""7","continue":"x""#),
            "only the first page",
        ),
        (
            text(r#"{"kind":"Status","items":[]}"#),
            "of kind \"Status\"",
        ),
        (text(r#"{"kind":7,"items":[]}"#), "kind is no string"),
        (text(r#"{"items":[]}"#), "of kind \"\""),
        (text(r#"{"kind":"LeaseList"}"#), "has no items"),
        (
            text(r#"{"kind":"LeaseList","items":{}}"#),
            "items are no array",
        ),
        (
            text(r#"{"kind":"LeaseList","items":[],"items":[]}"#),
            "items twice",
        ),
        (
            text(r#"{"kind":"LeaseList","items":[1]}"#),
            "no valid JSON at \"1\"",
        ),
        (text(r#"{"kind":"LeaseList","items":[{}]}"#), "item 0: "),
        (
            text(r#"{"kind":"LeaseList","items":[]} x"#),
            "no valid JSON at \"x\"",
        ),
        (
            text(r#"{"kind":"LeaseList","items":[],}"#),
            "no valid JSON at \"}\"",
        ),
        (text(r#"{"metadata":7,"#), "metadata is none"),
        (text("[]"), "no valid JSON at \"[\""),
        (but("2026", "soon"), "is no time"),
        (
            of(&"a".repeat(254)),
            "item 1: its name is longer than 253 bytes",
        ),
        (of("a b"), "item 1: \"a b\" is no name"),
        (of(""), "item 1: it has no name"),
        (
            but("7", &"7".repeat(70_000)),
            "metadata of the list is too long",
        ),
        (
            but("uid", &"u".repeat(70_000)),
            "one item in bytes is more than 65536",
        ),
        (text(&good[..good.len() - 1]), "ends too early"),
        (vec![], "ends too early"),
    ];
    assert_refused(JSON, &cases);
}

#[test]
fn fields_that_nobody_knows_are_skipped() {
    let lease = Lease::named("a");
    let strange = [
        varint(9, -1),
        bytes(10, &[7; 300]),
        vec![0x59; 9],
        vec![0x5d; 5],
    ]
    .concat();
    let item = [strange.clone(), lease.protobuf(), strange.clone()].concat();
    let list = [strange.clone(), bytes(2, &item), strange.clone()].concat();
    let mut body = envelope("LeaseList", &list);
    body.extend(strange);
    for cut in 0..body.len() {
        let list: LeaseList = decode(PROTOBUF, &body, &[cut]).unwrap();
        assert_eq!(written(&list), std::slice::from_ref(&lease));
    }
    let json = r#"{"a":[{"items":[1]}],"items":[ITEM],"b":-1.5e3,"c":"\"}","kind":"LeaseList"}"#;
    let body = json.replace("ITEM", &lease.json());
    for cut in 0..body.len() {
        let list: LeaseList = decode(JSON, body.as_bytes(), &[cut]).unwrap();
        assert_eq!(written(&list), std::slice::from_ref(&lease));
    }
}

#[test]
fn a_list_of_more_than_20_000_leases_is_refused() {
    let all = vec![Lease::named("a"); 20_001];
    for (form, body) in [
        (PROTOBUF, protobuf_leases(&all)),
        (JSON, json_leases(&all).into_bytes()),
    ] {
        let error = leases(form, &body).unwrap_err();
        assert_eq!(error.to_string(), "the number of items is more than 20000");
    }
}
