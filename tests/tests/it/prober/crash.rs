//! kill -9 at each request of a fence and of a restore.

use futures_util::future::join_all;
use kelpie_e2e::landscape::{Asked, Kubelets, Pace, ProberConfig, Ruling, Shoot};
use tokio::time::Instant;

use super::stage::*;

/// What a flow asks of each target on either way: it reads it, writes the record or drops the marker,
/// scales it, and looks whether the pods follow. The first look of all is the survey at the start.
const REQUESTS: [(&str, &str, usize); 4] = [
    ("GET", "", 2),
    ("PATCH", "", 1),
    ("PATCH", "/scale", 1),
    ("GET", "", 3),
];

/// The request at which a prober is killed: the server has answered it, and nobody hears of it.
#[derive(Clone, Copy)]
struct Last {
    target: &'static str,
    method: &'static str,
    subresource: &'static str,
    occurrence: usize,
}

#[tokio::test]
async fn whenever_the_process_is_killed_the_next_one_ends_in_the_right_state() {
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, pace).await.unwrap();
    let mut trials = Vec::new();
    for target in [KCM, MCM, CA] {
        for (method, subresource, occurrence) in REQUESTS {
            let name = format!("killed-{}", trials.len() + 1);
            let last = Last {
                target,
                method,
                subresource,
                occurrence,
            };
            trials.push((stage.shoot(&name, &kubelets).await, last));
        }
    }
    let start = Instant::now();

    let killed = trials
        .iter()
        .map(|(shoot, last)| kill(&stage, shoot, *last));
    join_all(killed).await;
    let prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for (shoot, _) in &trials {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        for (name, count) in [(KCM, "3"), (MCM, "1"), (CA, "2")] {
            let controller = shoot.controller(name).await.unwrap();
            let what = format!("{name} of {}", shoot.name);
            assert_eq!(controller.recorded.as_deref(), Some(count), "{what}");
            assert!(controller.marked, "{what}");
        }
    }
    drop(prober);

    kubelets.heal().await;
    let killed = trials
        .iter()
        .map(|(shoot, last)| kill(&stage, shoot, *last));
    join_all(killed).await;
    let _prober = stage.prober(&ProberConfig::shipped(pace), &[]).await;
    for (shoot, _) in &trials {
        shoot.until_restored(RESTORED, PATIENCE).await.unwrap();
        stage.until_caught_up(shoot).await;
        assert_each_step_was_made_once(&stage, shoot, start, 1);
    }
}

/// Starts a prober for this shoot alone and kills it at its last request.
async fn kill(stage: &Stage, shoot: &Shoot, last: Last) {
    let doorman = stage.doorman().await;
    let mut seen = 0;
    doorman.rule(move |asked| {
        seen += usize::from(last.is_like(asked));
        if seen < last.occurrence {
            Ruling::Pass
        } else {
            // Of what is asked at the same time, nothing is heard of either.
            Ruling::HoldAnswer
        }
    });
    let config = one_by_one(Pace::QUICK).only(&shoot.name);
    let prober = stage.prober_by(&doorman, &config, &[]).await;
    let at = doorman.until_held(PATIENCE, |asked| last.is_like(asked));
    let at = at.await.unwrap();
    prober.kelpie.kill();
    println!("{}: killed at {} {}", shoot.name, at.method, at.path);
}

impl Last {
    fn is_like(self, asked: &Asked) -> bool {
        let Self {
            target,
            method,
            subresource,
            ..
        } = self;
        let path = asked.path.split('?').next().unwrap_or_default();
        asked.method == method && path.ends_with(&format!("/deployments/{target}{subresource}"))
    }
}
