//! The number of open files that the prober needs.

/// Connections of one cluster: those of overlapping requests over both paths, and spare ones.
const PER_CLUSTER: u64 = 12;
/// Connections to the seed, listeners and scrapes.
const SHARED: u64 = 100;

/// Returns the number of files that may be open at once while this many clusters are probed.
pub fn open_files_needed(clusters: usize) -> u64 {
    let clusters = u64::try_from(clusters).unwrap_or(u64::MAX);
    clusters.saturating_mul(PER_CLUSTER).saturating_add(SHARED)
}
