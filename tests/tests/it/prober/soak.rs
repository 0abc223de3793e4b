//! Random faults on real servers for two minutes.

use std::time::Duration;

use kelpie_e2e::landscape::Timings;
use kelpie_e2e::soak::{Soak, SoakOptions};

/// `cargo xtask soak` is the long variant.
// Multi-threaded, so that lease renewals continue while the test waits for a server.
#[tokio::test(flavor = "multi_thread")]
async fn audit_log_shows_no_violation_under_faults() {
    let options = SoakOptions {
        duration: Duration::from_mins(2),
        fault_interval: Duration::from_millis(1_500),
        clusters: 8,
        nodes: 3,
        servers: 1,
        timings: Timings::QUICK,
        rng_seed: 1,
    };
    let mut soak = Soak::prepare(options).await.unwrap();
    let report = soak.run(|event| println!("{event}")).await.unwrap();
    let files = soak.open_files().unwrap();
    println!(
        "scaled down {}, up {}; {files} files and sockets are open",
        report.scale_downs, report.scale_ups
    );
    assert!(report.violations.is_empty(), "{report:#?}\n{}", soak.log());
    // A few for each cluster. More would be a leak.
    assert!(files < 40 + 4 * options.clusters, "{files}");
    // Without fences and restores the check would prove nothing.
    assert!(report.scale_downs > 3 && report.scale_ups > 3, "{report:?}");
}
