//! What goes wrong, and where.

mod weather;

use kelpie_config::scenario::{Clusters, Nodes};

pub(crate) use weather::Weather;

/// The numbers of the clusters that are meant, where there are `count`.
pub(crate) fn numbers(clusters: &Clusters, count: usize) -> Vec<usize> {
    match clusters {
        Clusters::All => (0..count).collect(),
        Clusters::Share(share) => (0..part(*share, count)).collect(),
        Clusters::Numbers(numbers) => {
            let there = numbers.iter().copied().filter(|number| *number < count);
            there.collect()
        }
    }
}

/// Whether the node of this number and zone is meant, where there are `count`.
pub(crate) fn is_meant(nodes: Nodes, (number, zone): (usize, usize), count: usize) -> bool {
    match nodes {
        Nodes::All => true,
        Nodes::Share(share) => number < part(share, count),
        Nodes::Zone(meant) => zone == meant,
    }
}

/// A share of `count`, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts of nodes and clusters"
)]
fn part(share: f64, count: usize) -> usize {
    // What is a whole number but for the last digit is that number.
    ((count as f64 * share.clamp(0.0, 1.0) - 1e-9).ceil()).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up() {
        for (share, count, expected) in [(0.6, 5, 3), (0.61, 5, 4), (0.0, 5, 0), (1.0, 5, 5)] {
            assert_eq!(part(share, count), expected, "{share} of {count}");
        }
        assert_eq!(numbers(&Clusters::Share(0.5), 3), [0, 1]);
        assert_eq!(numbers(&Clusters::Numbers(vec![2, 9]), 3), [2]);
    }

    #[test]
    fn nodes_are_meant_by_number_or_zone() {
        assert!(is_meant(Nodes::Share(0.5), (1, 0), 4));
        assert!(!is_meant(Nodes::Share(0.5), (2, 0), 4));
        assert!(is_meant(Nodes::Zone(1), (5, 1), 9));
    }
}
