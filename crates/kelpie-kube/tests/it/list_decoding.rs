//! Decoding of lists of leases and nodes.

use kelpie_core::Time;
use kelpie_kube::lists::{Decoder, LeaseList, ListError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::bodies::{
    CollectedNodes, JSON, LeaseFixture, PROTOBUF, REAL_LEASES, REAL_NODES, TestList, bytes,
    envelope, json_leases, json_list, protobuf_leases, varint, versioned_lists,
};

/// Decodes `body` in chunks that end at `cuts`.
fn decode<L: TestList>(content_type: &str, body: &[u8], cuts: &[usize]) -> Result<L, ListError> {
    decode_versioned(content_type, body, cuts).map(|(list, _)| list)
}

/// Decodes `body` as [`decode`] does. Returns the version of the list too.
fn decode_versioned<L: TestList>(
    content_type: &str,
    body: &[u8],
    cuts: &[usize],
) -> Result<(L, Option<u64>), ListError> {
    let mut decoder = Decoder::new(L::empty(), Some(content_type))?;
    let mut start = 0;
    for cut in cuts.iter().copied().chain([body.len()]) {
        decoder.push(&body[start..cut])?;
        start = cut;
    }
    let version = decoder.resource_version();
    Ok((decoder.finish()?, version))
}

/// Returns the version of a list.
fn version(content_type: &str, body: &[u8]) -> Option<u64> {
    let (_, version) = decode_versioned::<LeaseList>(content_type, body, &[]).unwrap();
    version
}

fn leases(content_type: &str, body: &[u8]) -> Result<LeaseList, ListError> {
    decode(content_type, body, &[])
}

fn fixtures(list: &LeaseList) -> Vec<LeaseFixture> {
    list.iter()
        .map(|lease| LeaseFixture {
            name: lease.name.to_owned(),
            micros: lease.renew_time.map(Time::as_micros),
            seconds: lease.duration_seconds,
        })
        .collect()
}

#[test]
fn real_lists_are_equal_in_both_encodings() {
    let [protobuf, json] =
        REAL_LEASES.map(|(content_type, body)| leases(content_type, body).unwrap());
    assert_eq!(protobuf, json);
    let names: Vec<_> = protobuf.iter().map(|lease| lease.name).collect();
    assert_eq!(names, ["node-a", "node-b", "node-c"]);
    let all = fixtures(&protobuf);
    assert_eq!(all[0].micros, Some(1_790_000_000_123_456));
    assert_eq!(all[0].seconds, Some(40));
    assert_eq!((all[2].micros, all[2].seconds), (None, Some(8)));

    let [protobuf, json] =
        REAL_NODES.map(|(content_type, body)| decode::<CollectedNodes>(content_type, body, &[]));
    let (protobuf, json) = (protobuf.unwrap(), json.unwrap());
    assert_eq!(protobuf, json);
    let [a, b] = protobuf.nodes.as_slice() else {
        panic!("{protobuf:?}")
    };
    assert_eq!(
        (a.name.as_str(), a.pool.as_deref()),
        ("node-a", Some("pool-1"))
    );
    assert!(!a.unmanaged && b.unmanaged && b.pool.is_none());
    assert!(a.created > Time::from_unix(1_700_000_000, 0));
    // The other condition, DiskPressure, is false and not kept.
    let [update] = a.conditions.as_slice() else {
        panic!("{a:?}")
    };
    assert_eq!(
        (update.kind.as_str(), update.is_true),
        ("InPlaceUpdate", true)
    );
    assert_eq!(update.reason, "ReadyForUpdate");
}

#[test]
fn version_of_list_is_decoded() {
    for (content_type, body) in REAL_LEASES {
        assert_eq!(version(content_type, body), Some(205), "{content_type}");
        for cut in 0..body.len() {
            let listed = decode_versioned::<LeaseList>(content_type, body, &[cut]);
            assert_eq!(listed.unwrap().1, Some(205), "{content_type} {cut}");
        }
    }
    for (content_type, body) in REAL_NODES {
        let (_, version) = decode_versioned::<CollectedNodes>(content_type, body, &[]).unwrap();
        assert!(version.is_some(), "{content_type}");
    }
}

#[test]
fn version_that_is_no_number_is_ignored() {
    for (text, expected) in [
        ("0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("", None),
        ("+7", None),
        ("-7", None),
        (" 7", None),
        ("7 ", None),
        ("0x7", None),
        ("7.0", None),
        ("1e3", None),
        ("a", None),
        ("\u{661}", None),
    ] {
        for (content_type, body) in versioned_lists(text) {
            assert_eq!(
                version(content_type, &body),
                expected,
                "{content_type} {text:?}"
            );
        }
    }
    for metadata in [
        "null",
        "{}",
        r#"{"resourceVersion":null}"#,
        r#"{"resourceVersion":7}"#,
    ] {
        let body = format!(r#"{{"kind":"LeaseList","metadata":{metadata},"items":[]}}"#);
        assert_eq!(version(JSON, body.as_bytes()), None, "{metadata}");
    }
    assert_eq!(version(PROTOBUF, &envelope("LeaseList", b"")), None);
    let number = envelope("LeaseList", &bytes(1, &varint(2, 7)));
    assert_eq!(version(PROTOBUF, &number), None);
}

/// Counts the prefixes of `body` that decode to the complete list.
fn complete_prefixes<L: TestList + PartialEq + std::fmt::Debug>(
    content_type: &str,
    body: &[u8],
) -> usize {
    let complete: L = decode(content_type, body, &[]).unwrap();
    let lists =
        (0..body.len()).filter_map(|length| decode(content_type, &body[..length], &[]).ok());
    lists
        .inspect(|list: &L| assert_eq!(*list, complete))
        .count()
}

#[test]
fn truncated_list_is_an_error() {
    // Only the end after the list may be missing: a line feed, or an empty field of two bytes.
    for (content_type, body) in REAL_LEASES {
        let expected = if content_type == JSON { 1 } else { 2 };
        assert_eq!(
            complete_prefixes::<LeaseList>(content_type, body),
            expected,
            "{content_type}"
        );
    }
    for (content_type, body) in REAL_NODES {
        let expected = if content_type == JSON { 1 } else { 2 };
        assert_eq!(
            complete_prefixes::<CollectedNodes>(content_type, body),
            expected,
            "{content_type}"
        );
    }
}

#[test]
fn list_may_be_split_anywhere() {
    for (content_type, body) in REAL_LEASES {
        let complete = leases(content_type, body).unwrap();
        for cut in 0..body.len() {
            assert_eq!(
                decode(content_type, body, &[cut]),
                Ok(complete.clone()),
                "{content_type} {cut}"
            );
        }
    }
}

fn any_lease() -> impl Strategy<Value = LeaseFixture> {
    let micros = prop::option::of(-60_000_000_000_000_000..200_000_000_000_000_000_i64);
    let seconds = prop::option::of(any::<i32>().prop_filter("none", |s| *s != i32::MIN));
    ("[a-z0-9][a-z0-9.-]{0,252}", micros, seconds).prop_map(|(name, micros, seconds)| {
        LeaseFixture {
            name,
            micros,
            seconds,
        }
    })
}

proptest! {
    #[test]
    fn encoded_leases_are_decoded_in_any_chunks(
        all in vec(any_lease(), 0..20),
        cuts in vec(any::<Index>(), 0..40),
    ) {
        // Kubernetes leaves out the zero time.
        let is_encoded = |lease: &LeaseFixture| lease.micros != Some(0);
        let all: Vec<LeaseFixture> = all.into_iter().filter(is_encoded).collect();
        let bodies = [(PROTOBUF, protobuf_leases(&all)), (JSON, json_leases(&all).into_bytes())];
        for (content_type, body) in bodies {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len())).collect();
            cuts.sort_unstable();
            let list: LeaseList = decode(content_type, &body, &cuts).unwrap();
            prop_assert_eq!(list.len(), all.len());
            prop_assert_eq!(fixtures(&list), all.clone());
        }
    }

    #[test]
    fn version_is_that_of_list_in_any_chunks(
        number in any::<u64>(),
        text in "[0-9]{0,30}|\\PC{0,30}",
        cuts in vec(any::<Index>(), 0..10),
    ) {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let parsed = text.parse().ok().filter(|_| is_number);
        for (text, expected) in [(number.to_string(), Some(number)), (text, parsed)] {
            for (content_type, body) in versioned_lists(&text) {
                let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len())).collect();
                cuts.sort_unstable();
                let listed = decode_versioned::<LeaseList>(content_type, &body, &cuts);
                let (list, version) = listed.unwrap();
                prop_assert_eq!((list.len(), version), (1, expected));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        body in vec(any::<u8>(), 0..300),
        tame in "[\\[\\]{}\",:a-z\\\\0-9 ]{0,300}",
        cut in any::<Index>(),
    ) {
        let enveloped = envelope("LeaseList", &body);
        let item = envelope("NodeList", &bytes(2, &body));
        let metadata = envelope("LeaseList", &bytes(1, &body));
        let around = json_list(std::slice::from_ref(&tame));
        for body in [&body[..], &enveloped, &item, &metadata, tame.as_bytes(), around.as_bytes()] {
            let cuts = if body.is_empty() { vec![] } else { vec![cut.index(body.len())] };
            for content_type in [PROTOBUF, JSON] {
                let _ = decode::<LeaseList>(content_type, body, &cuts);
                let _ = decode::<CollectedNodes>(content_type, body, &cuts);
            }
        }
    }

    #[test]
    fn corrupted_list_never_panics(
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        for (content_type, body) in REAL_LEASES.into_iter().chain(REAL_NODES) {
            let mut body = body.to_vec();
            for (at, byte) in &changes {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            let _ = decode::<LeaseList>(content_type, &body, &[]);
            let _ = decode::<CollectedNodes>(content_type, &body, &[]);
        }
    }
}

#[test]
fn empty_list_is_accepted() {
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

/// Asserts that each body is refused with a message that contains the expected text.
fn assert_refused(content_type: &str, cases: &[(Vec<u8>, &str)]) {
    for (body, expected) in cases {
        let error = leases(content_type, body).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected}, got {error}");
        assert!(error.len() < 250, "{error}");
    }
}

/// Returns two leases, the second of which has this name.
fn named(name: &str) -> Vec<LeaseFixture> {
    vec![LeaseFixture::named("a"), LeaseFixture::named(name)]
}

#[test]
fn other_content_types_are_refused() {
    assert_refused(
        "text/html",
        &[(vec![], "has content type \"text/html\": expected")],
    );
    assert_refused("", &[(vec![], "has content type \"\": expected")]);
}

#[test]
fn malformed_protobuf_is_refused_with_reason() {
    let list = |list: &[u8]| envelope("LeaseList", list);
    let of = |name| protobuf_leases(&named(name));
    let cases = [
        (list(&bytes(1, &bytes(3, b"token"))), "only the first page"),
        (b"k8s!".to_vec(), "is not Kubernetes protobuf"),
        (
            envelope("Status", b""),
            "of kind \"Status\": expected LeaseList",
        ),
        (
            of(&"a".repeat(254)),
            "item 1: its name is longer than 253 bytes",
        ),
        (of("a\u{7}b"), "item 1: \"a\\u{7}b\" is not a valid name"),
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
        (b"k8s\0".to_vec(), "ends too early"),
        (vec![], "ends too early"),
    ];
    assert_refused(PROTOBUF, &cases);
}

#[test]
fn malformed_json_is_refused_with_reason() {
    let valid = json_leases(&[LeaseFixture::named("a")]);
    let but = |from: &str, to: &str| valid.replacen(from, to, 1).into_bytes();
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
        (text(r#"{"kind":7,"items":[]}"#), "kind is not a string"),
        (text(r#"{"items":[]}"#), "of kind \"\""),
        (text(r#"{"kind":"LeaseList"}"#), "has no items"),
        (
            text(r#"{"kind":"LeaseList","items":{}}"#),
            "items are not an array",
        ),
        (
            text(r#"{"kind":"LeaseList","items":[],"items":[]}"#),
            "items twice",
        ),
        (
            text(r#"{"kind":"LeaseList","items":[1]}"#),
            "not valid JSON at \"1\"",
        ),
        (text(r#"{"kind":"LeaseList","items":[{}]}"#), "item 0: "),
        (
            text(r#"{"kind":"LeaseList","items":[]} x"#),
            "not valid JSON at \"x\"",
        ),
        (
            text(r#"{"kind":"LeaseList","items":[],}"#),
            "not valid JSON at \"}\"",
        ),
        (text(r#"{"metadata":7,"#), "metadata is invalid"),
        (text("[]"), "not valid JSON at \"[\""),
        (but("2026", "soon"), "is not a time"),
        (
            of(&"a".repeat(254)),
            "item 1: its name is longer than 253 bytes",
        ),
        (of("a b"), "item 1: \"a b\" is not a valid name"),
        (of(""), "item 1: it has no name"),
        (
            but("7", &"7".repeat(70_000)),
            "metadata of the list is too long",
        ),
        (text(&valid[..valid.len() - 1]), "ends too early"),
        (vec![], "ends too early"),
    ];
    assert_refused(JSON, &cases);
}

#[test]
fn unknown_fields_are_skipped() {
    let lease = LeaseFixture::named("a");
    let unknown = [
        varint(9, -1),
        bytes(10, &[7; 300]),
        vec![0x59; 9],
        vec![0x5d; 5],
    ]
    .concat();
    let item = [unknown.clone(), lease.protobuf(), unknown.clone()].concat();
    let list = [unknown.clone(), bytes(2, &item), unknown.clone()].concat();
    let mut body = envelope("LeaseList", &list);
    body.extend(unknown);
    for cut in 0..body.len() {
        let list: LeaseList = decode(PROTOBUF, &body, &[cut]).unwrap();
        assert_eq!(fixtures(&list), std::slice::from_ref(&lease));
    }
    let json = r#"{"a":[{"items":[1]}],"items":[ITEM],"b":-1.5e3,"c":"\"}","kind":"LeaseList"}"#;
    let body = json.replace("ITEM", &lease.json());
    for cut in 0..body.len() {
        let list: LeaseList = decode(JSON, body.as_bytes(), &[cut]).unwrap();
        assert_eq!(fixtures(&list), std::slice::from_ref(&lease));
    }
}

#[test]
fn too_many_leases_are_refused() {
    let all = vec![LeaseFixture::named("a"); 20_001];
    for (content_type, body) in [
        (PROTOBUF, protobuf_leases(&all)),
        (JSON, json_leases(&all).into_bytes()),
    ] {
        let error = leases(content_type, &body).unwrap_err();
        assert_eq!(error.to_string(), "the number of items is more than 20000");
    }
}

/// A user of the cluster may write an annotation of 256 KiB onto a lease.
#[test]
fn oversized_lease_costs_only_itself() {
    let three = ["a", "b", "c"].map(LeaseFixture::named);
    let large = |lease: &LeaseFixture, encoded: Vec<u8>| match &*lease.name {
        "b" => [encoded, bytes(15, &vec![b'x'; 70_000])].concat(),
        _ => encoded,
    };
    let items = three.iter();
    let items = items.flat_map(|lease| bytes(2, &large(lease, lease.protobuf())));
    let protobuf = envelope("LeaseList", &items.collect::<Vec<_>>());
    let padding = format!(r#"{{"x":"}}\"{}","metadata""#, "x".repeat(70_000));
    let json = json_leases(&three);
    let second = json.match_indices(r#"{"metadata""#).nth(1).unwrap().0;
    let json = [&json[..second], &padding, &json[second + 11..]].concat();
    for (content_type, body) in [(PROTOBUF, protobuf), (JSON, json.into_bytes())] {
        for chunk in [1_000, 65_537, 100_000] {
            let empty = LeaseList::default();
            let mut decoder = Decoder::new(empty, Some(content_type)).unwrap();
            body.chunks(chunk)
                .for_each(|chunk| decoder.push(chunk).unwrap());
            assert_eq!(decoder.oversized(), 1, "{content_type} {chunk}");
            let list = decoder.finish().unwrap();
            let names: Vec<_> = list.iter().map(|lease| lease.name).collect();
            assert_eq!(names, ["a", "c"], "{content_type} {chunk}");
        }
    }
}

#[test]
fn names_of_a_list_are_limited() {
    let all: Vec<_> = (0..10_000)
        .map(|n| LeaseFixture::named(&format!("{n:0250}")))
        .collect();
    for (content_type, body) in [
        (PROTOBUF, protobuf_leases(&all)),
        (JSON, json_leases(&all).into_bytes()),
    ] {
        let error = leases(content_type, &body).unwrap_err();
        let expected = "the size of all names in bytes is more than 2097152";
        assert_eq!(error.to_string(), expected);
    }
}
