//! Helpers of the `kelpie etcd` tests: all etcd releases at once, and kelpie next to a member.

use std::time::Duration;

use kelpie_e2e::{ETCD_RELEASES, EtcdMember, Kelpie, plain_http};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::{JoinSet, LocalSet};

/// Tolerance for a single late response on a machine with ten runnable processes per core. The
/// median has a tighter limit.
pub(super) const SLACK: Duration = Duration::from_secs(2);

/// Time limit for everything that should happen.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

/// Locks out other tests that fill disks or measure times.
pub(super) async fn exclusive() -> MutexGuard<'static, ()> {
    static EXCLUSIVE: Mutex<()> = Mutex::const_new(());
    EXCLUSIVE.lock().await
}

/// Runs a test on every etcd release concurrently.
pub(super) async fn on_every_release<F, Fut>(test: F)
where
    F: Fn(&'static str) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    on_releases(&ETCD_RELEASES, test).await;
}

/// Runs a test on these etcd releases concurrently. A failure names the release.
pub(super) async fn on_releases<F, Fut>(releases: &[&'static str], test: F)
where
    F: Fn(&'static str) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let local = LocalSet::new();
    let mut tests = JoinSet::new();
    let spawn = |release: &&'static str| {
        let id = tests.spawn_local_on(test(release), &local).id();
        (id, *release)
    };
    let named: Vec<_> = releases.iter().map(spawn).collect();
    let mut failed = Vec::new();
    let all = async {
        while let Some(end) = tests.join_next_with_id().await {
            if let Err(error) = end {
                let release = named.iter().find(|(id, _)| *id == error.id());
                failed.push(release.map_or("?", |(_, release)| release));
            }
        }
    };
    local.run_until(all).await;
    assert!(failed.is_empty(), "failed on {}", failed.join(", "));
}

/// Returns the command line of a kelpie server for `member`, with additional flags.
pub(super) fn command_line(member: &EtcdMember, flags: &[&str]) -> Vec<String> {
    let fixed = ["etcd", "--listen=127.0.0.1:0"].map(str::to_owned);
    let endpoint = format!("--endpoints={}", member.url());
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    fixed.into_iter().chain([endpoint]).chain(flags).collect()
}

/// Starts kelpie for `member`, with additional flags.
pub(super) async fn start_kelpie(member: &EtcdMember, flags: &[&str]) -> Kelpie {
    Kelpie::start(&command_line(member, flags)).await.unwrap()
}

/// Describes etcd's own response for `target`, for comparison.
///
/// It is requested from the metrics listener, which needs no certificate.
pub(super) async fn etcd_response(member: &EtcdMember, target: &str, timeout: Duration) -> String {
    match plain_http::get_within(member.metrics_url(), target, timeout)
        .await
        .unwrap()
    {
        None => format!("silent for {timeout:?}"),
        Some(reply) => format!("{} after {:?}", reply.status, reply.took),
    }
}

/// Returns the median and the maximum.
pub(super) fn median_and_max(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}
