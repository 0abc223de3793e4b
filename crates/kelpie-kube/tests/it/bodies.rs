//! Response bodies in both encodings.

use std::fmt::Write;
use std::sync::Arc;

pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const JSON: &str = "application/json";

use kelpie_core::prober::{Node, NodeConventions, NodeRules};
use kelpie_kube::lists::{LeaseList, List, NodeList};

/// The nodes themselves, rather than their judgement.
pub(crate) type CollectedNodes = NodeList<Vec<Node>>;

/// Returns the rules by which nodes are judged in these tests.
pub(crate) fn rules() -> Arc<NodeRules> {
    Arc::new(NodeRules::new(CONVENTIONS, Arc::default()))
}

/// The conventions of the nodes in these tests.
pub(crate) const CONVENTIONS: NodeConventions = NodeConventions {
    pool_label: "worker.gardener.cloud/pool",
    unmanaged_annotation: "node.machine.sapcloud.io/not-managed-by-mcm",
    unhealthy_conditions: &["DiskPressure"],
    update_condition: "InPlaceUpdate",
    update_reasons: &[],
    nodes_may_lack_machine: false,
};

/// A list that tests decode into.
pub(crate) trait TestList: List {
    fn empty() -> Self;
}

impl TestList for LeaseList {
    fn empty() -> Self {
        Self::default()
    }
}

impl TestList for CollectedNodes {
    fn empty() -> Self {
        Self::collecting(rules())
    }
}

/// Three leases from a real kube-apiserver 1.36, one of which was never renewed.
pub(crate) const REAL_LEASES: [(&str, &[u8]); 2] = [
    (
        PROTOBUF,
        include_bytes!("../../../../fuzz/corpus/leases/leases.pb"),
    ),
    (
        JSON,
        include_bytes!("../../../../fuzz/corpus/leases/leases.json"),
    ),
];
/// Two nodes from a real kube-apiserver 1.36.
pub(crate) const REAL_NODES: [(&str, &[u8]); 2] = [
    (
        PROTOBUF,
        include_bytes!("../../../../fuzz/corpus/nodes/nodes.pb"),
    ),
    (
        JSON,
        include_bytes!("../../../../fuzz/corpus/nodes/nodes.json"),
    ),
];

/// A lease to be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseFixture {
    pub(crate) name: String,
    pub(crate) micros: Option<i64>,
    pub(crate) seconds: Option<i32>,
}

impl LeaseFixture {
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            micros: Some(1_790_000_000_123_456),
            seconds: Some(40),
        }
    }

    pub(crate) fn json(&self) -> String {
        let mut spec = format!(r#""holderIdentity":"{}""#, self.name);
        if let Some(seconds) = self.seconds {
            write!(spec, r#","leaseDurationSeconds":{seconds}"#).unwrap();
        }
        if let Some(micros) = self.micros {
            let time = kelpie_core::Time::from_micros(micros);
            write!(spec, r#","renewTime":"{time}""#).unwrap();
        }
        format!(
            r#"{{"metadata":{{"name":"{}","uid":"{{[\""}},"spec":{{{spec}}}}}"#,
            self.name
        )
    }

    pub(crate) fn protobuf(&self) -> Vec<u8> {
        let mut spec = bytes(1, self.name.as_bytes());
        if let Some(seconds) = self.seconds {
            spec.extend(varint(2, i64::from(seconds)));
        }
        if let Some(micros) = self.micros {
            let nanos = micros.rem_euclid(1_000_000) * 1_000;
            let time = [varint(1, micros.div_euclid(1_000_000)), varint(2, nanos)];
            spec.extend(bytes(4, &time.concat()));
        }
        let metadata = bytes(1, self.name.as_bytes());
        [bytes(1, &metadata), bytes(2, &spec)].concat()
    }
}

pub(crate) fn json_list(items: &[String]) -> String {
    let items = items.join(",");
    let start = r#"{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1""#;
    format!(r#"{start},"metadata":{{"resourceVersion":"7"}},"items":[{items}]}}"#)
}

/// Encodes a list of one lease with this `resourceVersion`, before or after the items.
pub(crate) fn versioned_lists(version: &str) -> [(&'static str, Vec<u8>); 4] {
    let lease = LeaseFixture::named("a");
    let quoted = serde_json::Value::from(version);
    let metadata = format!(r#""metadata":{{"resourceVersion":{quoted}}}"#);
    let items = format!(r#""items":[{}]"#, lease.json());
    let json = |first: &str, second: &str| {
        let list = format!(r#"{{"kind":"LeaseList",{first},{second}}}"#);
        (JSON, list.into_bytes())
    };
    let (meta, item) = (
        bytes(1, &bytes(2, version.as_bytes())),
        bytes(2, &lease.protobuf()),
    );
    let protobuf = |parts: [&[u8]; 2]| (PROTOBUF, envelope("LeaseList", &parts.concat()));
    [
        json(&metadata, &items),
        json(&items, &metadata),
        protobuf([&meta, &item]),
        protobuf([&item, &meta]),
    ]
}

pub(crate) fn json_leases(leases: &[LeaseFixture]) -> String {
    json_list(&leases.iter().map(LeaseFixture::json).collect::<Vec<_>>())
}

pub(crate) fn protobuf_leases(leases: &[LeaseFixture]) -> Vec<u8> {
    let items = leases.iter().flat_map(|lease| bytes(2, &lease.protobuf()));
    let list: Vec<u8> = bytes(1, &bytes(2, b"7")).into_iter().chain(items).collect();
    envelope("LeaseList", &list)
}

/// Encodes `count` nodes that all have these conditions: type, status and reason.
pub(crate) fn nodes(
    count: usize,
    conditions: &[(&str, &str, &str)],
) -> [(&'static str, Vec<u8>); 2] {
    let json_conditions = conditions.iter().map(|(kind, status, reason)| {
        format!(r#"{{"type":"{kind}","status":"{status}","reason":"{reason}"}}"#)
    });
    let json_conditions = json_conditions.collect::<Vec<_>>().join(",");
    let fields = conditions.iter().map(|(kind, status, reason)| {
        let texts = [(1, kind), (2, status), (5, reason)];
        bytes(
            4,
            &texts
                .map(|(field, text)| bytes(field, text.as_bytes()))
                .concat(),
        )
    });
    let status = bytes(3, &fields.collect::<Vec<_>>().concat());
    let (mut json, mut protobuf) = (Vec::new(), Vec::new());
    for number in 0..count {
        let name = format!("node-{number:05}");
        json.push(format!(
            r#"{{"metadata":{{"name":"{name}"}},"status":{{"conditions":[{json_conditions}]}}}}"#
        ));
        let metadata = bytes(1, &bytes(1, name.as_bytes()));
        protobuf.extend(bytes(2, &[metadata, status.clone()].concat()));
    }
    let json = json_list(&json).replacen("LeaseList", "NodeList", 1);
    [
        (JSON, json.into_bytes()),
        (PROTOBUF, envelope("NodeList", &protobuf)),
    ]
}

/// Encodes the envelope of Kubernetes protobuf.
pub(crate) fn envelope(kind: &str, list: &[u8]) -> Vec<u8> {
    let types = [bytes(1, b"v1"), bytes(2, kind.as_bytes())].concat();
    let mut body = b"k8s\0".to_vec();
    body.extend(bytes(1, &types));
    body.extend(bytes(2, list));
    body.extend(bytes(3, b""));
    body
}

/// Encodes a protobuf field with bytes.
pub(crate) fn bytes(field: u32, content: &[u8]) -> Vec<u8> {
    let mut all = number(u64::from(field) << 3 | 2);
    all.extend(number(content.len() as u64));
    all.extend(content);
    all
}

/// Encodes a protobuf field with a varint.
pub(crate) fn varint(field: u32, value: i64) -> Vec<u8> {
    let mut all = number(u64::from(field) << 3);
    all.extend(number(value.cast_unsigned()));
    all
}

fn number(mut value: u64) -> Vec<u8> {
    let mut all = Vec::new();
    while value >= 0x80 {
        all.push(0x80 | u8::try_from(value & 0x7f).unwrap());
        value >>= 7;
    }
    all.push(u8::try_from(value).unwrap());
    all
}
