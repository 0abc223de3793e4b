//! A seed whose API server is in trouble while a fence is made, or keeps the prober waiting.

use std::time::Duration;

use kelpie_e2e::landscape::{Asked, Kubelets, Pace, Prober, ProberConfig, Ruling};
use tokio::time::Instant;

use super::election::until_leading;
use super::stage::*;

/// So many calls of a fence are refused, each by the first row that is about it: where, which method,
/// the answer, and the words that tell a person.
const REFUSALS: [(&str, &str, u16, &str); 3] = [
    ("throttled", "PATCH", 429, "too many requests"),
    ("broken", "PATCH", 503, "503"),
    ("unreadable", "GET", 500, "500"),
];
const TIMES: u8 = 4;

/// A call that was refused is not made again before this, less what a clock may be off.
const PAUSE: Duration = Duration::from_millis(90);

#[tokio::test]
async fn a_seed_that_refuses_is_asked_again_soon_and_never_for_more_than_the_named_secrets() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start(client, 3, pace).await.unwrap();
    let mut shoots = Vec::new();
    for (name, ..) in REFUSALS {
        let shoot = stage.shoot(name, &kubelets).await;
        let external = stage.kubeconfig.clone();
        shoot.add_secret("dwd-external", &external).await.unwrap();
        shoot.add_secret("database", "password").await.unwrap();
        shoots.push(shoot);
    }
    let door = stage.doorman().await;
    let config = ProberConfig::shipped(pace).line("externalKubeConfigSecretName: dwd-external");
    let prober = stage.prober_by(&door, &config, &[]).await;
    for shoot in &shoots {
        until_well(&prober, shoot).await;
        // The looks of the start are over: what is asked of a target from now on is a fence's.
        let looked = prober.until_state("a look", &shoot.name, PATIENCE, |state| {
            state["fence"] == "none"
        });
        looked.await.unwrap();
    }

    let mut refused = [0_u8; REFUSALS.len()];
    door.rule(move |asked| {
        let rows = REFUSALS.into_iter().zip(&mut refused);
        for ((shoot, method, status, _), times) in rows {
            if is_refused(asked, shoot, method) && *times < TIMES {
                *times += 1;
                return Ruling::Refuse(status, vec!["Retry-After: 600"]);
            }
        }
        Ruling::Pass
    });
    kubelets.cut(1.0).await;
    for shoot in &shoots {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    }
    for (shoot, method, status, words) in REFUSALS {
        let told = prober.lines(&["WARN", shoot, words]);
        assert!(!told.is_empty(), "{shoot}: {}", prober.log());
        let answers = format!(r#"kelpie_prober_seed_requests_total{{code="{status}"}}"#);
        let answers = prober.kelpie.metric(&answers).await.unwrap();
        assert!(answers > f64::from(TIMES) - 0.5, "{shoot}: {answers}");
        let mut asked = door.asked();
        asked.retain(|asked| method == "PATCH" && is_refused(asked, shoot, method));
        for (number, one) in asked.iter().enumerate() {
            let again = asked[number + 1..]
                .iter()
                .find(|other| other.path == one.path);
            let pause = again.map(|again| again.at - one.at);
            assert!(pause.is_none_or(|pause| pause >= PAUSE), "{asked:#?}");
        }
    }
    kubelets.heal().await;
    for shoot in &shoots {
        shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
    }

    let mut secrets = door.asked();
    secrets.retain(|asked| asked.path.contains("/secrets"));
    assert!(secrets.len() >= 2, "{secrets:#?}");
    for asked in &secrets {
        let selector = "fieldSelector=metadata.name%3Ddwd-";
        let is_named = ["internal", "external"]
            .into_iter()
            .any(|name| asked.path.contains(&format!("{selector}{name}&")));
        assert!(asked.method == "GET" && is_named, "{asked:?}");
    }
}

fn is_refused(asked: &Asked, shoot: &str, method: &str) -> bool {
    let namespace = format!("/namespaces/{shoot}/");
    asked.is_on_target() && asked.method == method && asked.path.contains(&namespace)
}

/// Five seconds for each look at a target, three minutes for all of them: somebody always waits.
#[tokio::test]
async fn a_backlog_of_routine_calls_holds_up_neither_the_end_nor_the_next_leader_nor_its_fences() {
    const CLUSTERS: usize = 12;
    let flags = [
        "--kube-api-qps=0.2",
        "--kube-api-burst=20",
        "--enable-leader-election=true",
    ];
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start(client, 3, pace).await.unwrap();
    let mut shoots = Vec::new();
    for number in 0..CLUSTERS {
        let name = format!("shoot-{number}");
        shoots.push(stage.shoot(&name, &kubelets).await);
    }
    let door = stage.doorman().await;
    let config = ProberConfig::shipped(pace);
    let first = stage.prober_by(&door, &config, &flags).await;
    until_leading(&first).await;
    let second = stage.prober(&config, &flags).await;
    for prober in [&first, &second] {
        for shoot in &shoots {
            until_well(prober, shoot).await;
        }
    }
    let asked = door.asked();
    let looks = asked.iter().filter(|asked| asked.is_on_target()).count();
    assert!(looks < CLUSTERS * 3, "no backlog: {looks} looks");

    let first_gap = hand_over(first, &second).await;
    kubelets.cut(1.0).await;
    for shoot in &shoots {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    }
    let third = stage.prober(&config, &flags).await;
    for shoot in &shoots {
        let fence = third.until_verdict(&shoot.name, "fence", PATIENCE);
        fence.await.unwrap();
    }
    let second_gap = hand_over(second, &third).await;
    // Not before the Lease has run out, if it was not given back.
    let gap = first_gap.min(second_gap);
    assert!(gap < Duration::from_secs(10), "{gap:?}");
}

/// From a SIGTERM until the next one leads.
async fn hand_over(leader: Prober, next: &Prober) -> Duration {
    let begin = Instant::now();
    let gap = async {
        until_leading(next).await;
        begin.elapsed()
    };
    let (ended, gap) = tokio::join!(leader.kelpie.stop(), gap);
    let ended = ended.unwrap();
    println!("ended after {:?}, the next acts after {gap:?}", ended.took);
    assert_eq!(ended.code, Some(0));
    gap
}
