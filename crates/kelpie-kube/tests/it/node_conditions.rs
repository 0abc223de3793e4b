//! The conditions of nodes that are kept.

use kelpie_core::prober::NodeCondition;
use kelpie_kube::lists::{Decoder, ListError};

use crate::bodies::{CollectedNodes, TestList, nodes};

fn decode(content_type: &str, body: &[u8]) -> Result<CollectedNodes, ListError> {
    let mut decoder = Decoder::new(CollectedNodes::empty(), Some(content_type))?;
    decoder.push(body)?;
    decoder.finish()
}

fn condition(kind: &str, is_true: bool, reason: &str) -> NodeCondition {
    NodeCondition {
        kind: kind.into(),
        is_true,
        reason: reason.into(),
    }
}

#[test]
fn only_named_conditions_are_kept() {
    let conditions = [
        ("Ready", "True", "KubeletReady"),
        ("MemoryPressure", "True", "KubeletHasInsufficientMemory"),
        ("DiskPressure", "Unknown", "NodeStatusUnknown"),
        ("DiskPressure", "True", "KubeletHasDiskPressure"),
        ("InPlaceUpdate", "False", "UpdateFailed"),
    ];
    let kept = [
        condition("DiskPressure", true, "KubeletHasDiskPressure"),
        condition("InPlaceUpdate", false, "UpdateFailed"),
    ];
    for (content_type, body) in nodes(2, &conditions) {
        let list = decode(content_type, &body).unwrap();
        assert_eq!(list.nodes.len(), 2, "{content_type}");
        assert!(
            list.nodes.iter().all(|node| node.conditions == kept),
            "{list:?}"
        );
    }
}

#[test]
fn many_conditions_do_not_refuse_a_list() {
    for (content_type, body) in nodes(2, &vec![("Own", "True", "R"); 2_000]) {
        let list = decode(content_type, &body).unwrap();
        assert_eq!(list.nodes.len(), 2, "{content_type}");
        assert!(list.nodes.iter().all(|node| node.conditions.is_empty()));
    }
}
