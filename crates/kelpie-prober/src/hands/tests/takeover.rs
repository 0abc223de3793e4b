//! What a takeover hurries for, and what is made of replies.

use std::io::Write;

use kelpie_bell::Bell;
use kelpie_core::{ResourceRef, ScaleRule};
use kelpie_kube::WallClock;
use kelpie_kube::seed::SeedOptions;
use prometheus_client::registry::Registry;
use tempfile::NamedTempFile;
use tokio::time::timeout;

use crate::board::Board;
use crate::hands::*;
use crate::metrics::Metrics;

const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: c, users: [],
    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}],
    contexts: [{name: c, context: {cluster: c, user: ''}}]}";

/// A seed that nobody answers for.
async fn nowhere() -> Seed {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(KUBECONFIG.as_bytes()).unwrap();
    let options = SeedOptions {
        kubeconfig: Some(file.path().to_owned()),
        qps: 5.0,
        burst: 10,
        user_agent: "kelpie-test".into(),
    };
    Seed::connect(&options).await.unwrap()
}

/// The hands of a standby, with one target, and what makes it lead.
pub(super) async fn standby() -> (Hands, Bell<Leadership>) {
    let rule = ScaleRule {
        level: 0,
        initial_delay: Duration::ZERO,
        timeout: Duration::from_secs(30),
        replicas: None,
    };
    let target = Target {
        resource: ResourceRef {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: "kcm".into(),
        },
        optional: true,
        up: rule,
        down: rule,
    };
    let bell = Bell::new(Leadership::Standby);
    let seed = nowhere().await;
    // Nobody answers looks: what the hands know is what a test says.
    let (survey, _) = seed.survey();
    let reach = Reach::new(&seed, survey, bell.listen(), false);
    let (cluster, targets): (Arc<str>, Arc<[_]>) = ("a".into(), [target].into());
    let clock = Clock::anchored(&WallClock::default());
    let metrics = Metrics::new(&mut Registry::default(), clock).of_cluster(&cluster);
    let place = Board::default().place(&cluster);
    let scribe = Scribe::new(
        Arc::clone(&cluster),
        Arc::clone(&targets),
        place,
        metrics,
        None,
    );
    let hands = Hands::new(cluster, clock, targets, reach, scribe);
    (hands, bell)
}

impl Hands {
    /// As if it had looked and seen that there is no such target.
    fn sees_nothing(&mut self) {
        let now = self.clock.now();
        for step in self.fencing.poll(now).steps {
            self.fencing.reply(step, Reply::Seen(Sight::Missing), now);
        }
        assert_eq!(self.fence(), Fence::None);
    }

    /// Whether it wants a round at once when it begins to lead.
    async fn hurries_to_lead(mut self, sender: &Bell<Leadership>) -> bool {
        sender.ring(Leadership::alone());
        let next_round = Instant::now() + Duration::from_secs(10);
        let early = timeout(Duration::from_secs(9), self.work_until(next_round)).await;
        assert!(self.acts);
        early.is_ok()
    }
}

#[tokio::test(start_paused = true)]
async fn a_takeover_begins_no_round_where_there_is_nothing_to_fence_or_release() {
    let (mut hands, sender) = standby().await;
    hands.sees_nothing();
    hands.verdict = Some(Verdict::Release);
    assert!(!hands.hurries_to_lead(&sender).await);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_begins_a_round_at_once_with_a_fence_in_hand_or_not_ruled_out() {
    let (mut hands, sender) = standby().await;
    hands.sees_nothing();
    hands.verdict = Some(Verdict::Fence);
    assert!(hands.hurries_to_lead(&sender).await);

    let (mut hands, sender) = standby().await;
    hands.verdict = Some(Verdict::Release);
    assert_eq!(hands.fence(), Fence::Unknown);
    assert!(hands.hurries_to_lead(&sender).await);
}

#[test]
fn an_optional_target_whose_kind_is_unknown_is_missing_and_a_required_one_is_trouble() {
    let unknown = || {
        Err(Hitch::Refused(TargetError::UnknownKind {
            what: "Rig rig".into(),
            kind: "Rig".into(),
            api_version: "example.org/v1".into(),
        }))
    };
    let missing = Reply::Seen(Sight::Missing);
    assert_eq!(digest(unknown(), true), (missing.clone(), News::Works));
    let (reply, news) = digest(unknown(), false);
    assert_eq!(reply, Reply::Failed);
    assert!(matches!(news, News::Trouble(_)));
    let (_, news) = digest(Ok(missing), false);
    assert!(matches!(news, News::Trouble(_)));
}

#[test]
fn conflicts_and_calls_that_were_not_made_are_no_news() {
    assert_eq!(digest(Ok(Reply::Conflict), false).1, News::None);
    assert_eq!(digest(Err(Hitch::Superseded), false).1, News::None);
    assert_eq!(digest(Err(Hitch::NotLeading), false).1, News::None);
}
