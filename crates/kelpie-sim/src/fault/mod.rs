//! The faults of a scenario: the nodes and clusters they affect, and those that are active.

mod active;

use kelpie_config::scenario::{ClusterSelection, NodeSelection};

pub(crate) use active::ActiveFaults;

/// Returns the numbers of the selected clusters out of `count`.
pub(crate) fn cluster_numbers(clusters: &ClusterSelection, count: usize) -> Vec<usize> {
    match clusters {
        ClusterSelection::All => (0..count).collect(),
        ClusterSelection::Share(share) => (0..rounded_share(*share, count)).collect(),
        ClusterSelection::Numbers(numbers) => {
            let existing = numbers.iter().copied().filter(|number| *number < count);
            existing.collect()
        }
    }
}

/// Returns whether a node with this number and zone is selected out of `count` nodes.
pub(crate) fn selects_node(
    nodes: NodeSelection,
    (number, zone): (usize, usize),
    count: usize,
) -> bool {
    match nodes {
        NodeSelection::All => true,
        NodeSelection::Share(share) => number < rounded_share(share, count),
        NodeSelection::Zone(wanted) => zone == wanted,
    }
}

/// Returns a share of `count`, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts of nodes and clusters"
)]
fn rounded_share(share: f64, count: usize) -> usize {
    // Rounding errors must not push a whole number up to the next one.
    ((count as f64 * share.clamp(0.0, 1.0) - 1e-9).ceil()).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up() {
        for (share, count, expected) in [(0.6, 5, 3), (0.61, 5, 4), (0.0, 5, 0), (1.0, 5, 5)] {
            assert_eq!(rounded_share(share, count), expected, "{share} of {count}");
        }
        assert_eq!(cluster_numbers(&ClusterSelection::Share(0.5), 3), [0, 1]);
        assert_eq!(
            cluster_numbers(&ClusterSelection::Numbers(vec![2, 9]), 3),
            [2]
        );
    }

    #[test]
    fn nodes_are_selected_by_number_or_zone() {
        assert!(selects_node(NodeSelection::Share(0.5), (1, 0), 4));
        assert!(!selects_node(NodeSelection::Share(0.5), (2, 0), 4));
        assert!(selects_node(NodeSelection::Zone(1), (5, 1), 9));
    }
}
