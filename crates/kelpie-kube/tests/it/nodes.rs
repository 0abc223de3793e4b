//! What is kept of nodes.

use kelpie_core::Condition;
use kelpie_kube::wire::{Decoder, NodeList, WireError};

use crate::bodies::nodes;

fn decode(form: &str, body: &[u8]) -> Result<NodeList, WireError> {
    let mut decoder = Decoder::new(Some(form))?;
    decoder.push(body)?;
    decoder.finish()
}

fn condition(kind: &str, is_true: bool, reason: &str) -> Condition {
    Condition {
        kind: kind.into(),
        is_true,
        reason: reason.into(),
    }
}

#[test]
fn only_conditions_that_can_take_a_node_out_of_the_count_are_kept() {
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
    for (form, body) in nodes(2, &conditions) {
        let list = decode(form, &body).unwrap();
        assert_eq!(list.0.len(), 2, "{form}");
        assert!(
            list.0.iter().all(|node| node.conditions == kept),
            "{list:?}"
        );
    }
}

#[test]
fn conditions_that_cannot_matter_do_not_count_and_too_many_that_can_are_refused() {
    let (no, yes) = (("No", "False", ""), ("Yes", "True", ""));
    for (form, body) in nodes(1, &[vec![no; 2_000], vec![yes; 64]].concat()) {
        assert_eq!(decode(form, &body).unwrap().0[0].conditions.len(), 64);
    }
    for (form, body) in nodes(1, &[yes; 65]) {
        let error = decode(form, &body).unwrap_err().to_string();
        let expected = "item 0: it has more than 64 conditions that hold";
        assert!(error.contains(expected), "{form}: {error}");
    }
}
