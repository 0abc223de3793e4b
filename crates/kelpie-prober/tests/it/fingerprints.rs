//! Golden fingerprints, which any change that preserves behaviour keeps.

use kelpie_chaos::RunSet;

use crate::subject::Prober;

/// Requests, node and pod changes and the final Deployments of 60 chaos runs. A commit that changes
/// behaviour updates the snapshot with `INSTA_UPDATE=always` and says why.
#[test]
fn fingerprints_unchanged() {
    let runs = RunSet {
        count: 60,
        ..RunSet::DEFAULT
    };
    let fingerprints = runs.fingerprints::<Prober>();
    insta::assert_snapshot!(fingerprints);
}
