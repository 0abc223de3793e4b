//! What the tests of `kelpie etcd` share: every line of etcd at once, and kelpie beside a member.

use std::time::Duration;

use kelpie_e2e::{Etcd, Kelpie, LINES, wire};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::{JoinSet, LocalSet};

/// What one answer may be later than its deadline where ten wait for each processor; the usual one
/// is judged by the median.
pub(super) const SLACK: Duration = Duration::from_secs(2);

/// How long anything may take that is expected to happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Tests that fill disks or measure times run one after another.
pub(super) async fn quiet() -> MutexGuard<'static, ()> {
    static QUIET: Mutex<()> = Mutex::const_new(());
    QUIET.lock().await
}

/// Plays a scene on every line of etcd at once.
pub(super) async fn on_every_line<F, Scene>(scene: F)
where
    F: Fn(&'static str) -> Scene,
    Scene: Future<Output = ()> + 'static,
{
    on_lines(&LINES, scene).await;
}

/// Plays a scene on some lines at once; a failure names the line.
pub(super) async fn on_lines<F, Scene>(lines: &[&'static str], scene: F)
where
    F: Fn(&'static str) -> Scene,
    Scene: Future<Output = ()> + 'static,
{
    let stage = LocalSet::new();
    let mut scenes = JoinSet::new();
    let play = |line: &&'static str| (scenes.spawn_local_on(scene(line), &stage).id(), *line);
    let named: Vec<_> = lines.iter().map(play).collect();
    let mut failed = Vec::new();
    let all = async {
        while let Some(end) = scenes.join_next_with_id().await {
            if let Err(error) = end {
                let line = named.iter().find(|(id, _)| *id == error.id());
                failed.push(line.map_or("?", |(_, line)| line));
            }
        }
    };
    stage.run_until(all).await;
    assert!(failed.is_empty(), "failed on {}", failed.join(", "));
}

/// The command line of a server beside `member`, with some flags more.
pub(super) fn command_line(member: &Etcd, flags: &[&str]) -> Vec<String> {
    let fixed = ["etcd", "--listen=127.0.0.1:0"].map(str::to_owned);
    let endpoint = format!("--endpoints={}", member.url());
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    fixed.into_iter().chain([endpoint]).chain(flags).collect()
}

/// Kelpie beside `member`, with some flags more.
pub(super) async fn beside(member: &Etcd, flags: &[&str]) -> Kelpie {
    Kelpie::start(&command_line(member, flags)).await.unwrap()
}

/// What etcd itself answers on `target`, for those who compare; asked where no certificate is needed.
pub(super) async fn own_answer(member: &Etcd, target: &str, patience: Duration) -> String {
    match wire::get_within(member.metrics_url(), target, patience)
        .await
        .unwrap()
    {
        None => format!("silent for {patience:?}"),
        Some(reply) => format!("{} after {:?}", reply.status, reply.took),
    }
}

/// The middle one of these, and the longest.
pub(super) fn middle_and_longest(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}
