//! The conditions of nodes that are kept.

use kelpie_core::prober::NodeCondition;
use kelpie_kube::lists::{Decoder, ListError, NodeList};

use crate::bodies::{TestList, nodes};

fn decode(content_type: &str, body: &[u8]) -> Result<NodeList, ListError> {
    let mut decoder = Decoder::new(NodeList::empty(), Some(content_type))?;
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
fn only_relevant_conditions_are_kept() {
    let conditions = [
        ("Ready", "True", "KubeletReady"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "Unknown", "NodeStatusUnknown"),
        ("InPlaceUpdate", "False", "UpdateFailed"),
    ];
    let kept = [
        condition("Ready", true, ""),
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
fn too_many_relevant_conditions_are_refused() {
    let (irrelevant, relevant) = (("No", "False", ""), ("Yes", "True", ""));
    for (content_type, body) in nodes(1, &[vec![irrelevant; 2_000], vec![relevant; 64]].concat()) {
        assert_eq!(
            decode(content_type, &body).unwrap().nodes[0]
                .conditions
                .len(),
            64
        );
    }
    for (content_type, body) in nodes(1, &[relevant; 65]) {
        let error = decode(content_type, &body).unwrap_err().to_string();
        let expected = "item 0: it has more than 64 conditions that may exclude it";
        assert!(error.contains(expected), "{content_type}: {error}");
    }
}
