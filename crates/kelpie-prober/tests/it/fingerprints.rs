//! Golden fingerprints: a change that is not meant to alter behaviour keeps them all.

use kelpie_sim::chaos::Search;

use crate::subject::Prober;

/// Requests, node and pod changes and the final Deployments of 60 chaos runs. A change of behaviour
/// updates the file with `INSTA_UPDATE=always` and says in its commit why.
#[test]
fn fingerprints_unchanged() {
    let fingerprints = Search::USUAL.fingerprints::<Prober>(60);
    insta::assert_snapshot!(fingerprints);
}
