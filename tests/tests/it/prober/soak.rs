//! Everything goes wrong for a while.

use std::time::Duration;

use kelpie_e2e::landscape::Pace;
use kelpie_e2e::soak::{Plan, Soak};

/// `cargo xtask soak` is the long one.
// Renewals go on while a server is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_goes_wrong_on_real_servers_the_audit_log_shows_nothing_that_must_not_be() {
    let plan = Plan {
        length: Duration::from_mins(2),
        every: Duration::from_millis(1_500),
        clusters: 8,
        nodes: 3,
        servers: 1,
        pace: Pace::QUICK,
        seed: 1,
    };
    let mut soak = Soak::prepare(plan).await.unwrap();
    let findings = soak.run(|what| println!("{what}")).await.unwrap();
    let files = soak.open_files().unwrap();
    println!(
        "scaled down {}, up {}; {files} files and sockets are open",
        findings.down, findings.up
    );
    assert!(findings.wrong.is_empty(), "{findings:#?}\n{}", soak.log());
    // A few for each cluster, whatever was opened and lost on the way.
    assert!(files < 40 + 4 * plan.clusters, "{files}");
    // Or there was nothing to find.
    assert!(findings.down > 3 && findings.up > 3, "{findings:?}");
}
