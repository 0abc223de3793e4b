//! Two replicas, and something happens to the leader at each write of a fence and of a restore.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::landscape::{
    Asked, Doorman, Kubelets, Pace, Prober, ProberConfig, Ruling, Shoot, Target,
};
use kelpie_e2e::poll;
use tokio::time::{Instant, sleep};

use super::election::{ELECTION, leads, until_leading};
use super::stage::*;

/// Three targets, two writes each, on either way.
const WRITES: usize = 6;

#[tokio::test]
async fn a_leader_killed_at_any_write_is_followed_by_one_that_goes_on_where_it_was() {
    let stage = Stage::start().await;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, Pace::QUICK).await.unwrap();
    let trials = trials(&stage, &kubelets).await;
    let start = Instant::now();

    let replicas = trials.iter().map(async |trial| {
        let leader = trial.leader(&stage).await;
        leader.stops_at(trial.write, &Ruling::HoldAnswer);
        let second = trial.replica(&stage).await;
        leader.until_held().await;
        leader.prober.kelpie.kill();
        trial.shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        let third = trial.replica(&stage).await;
        for replica in [&second, &third] {
            replica.stops_at(trial.write, &Ruling::HoldAnswer);
        }
        (second, third)
    });
    let replicas = join_all(replicas).await;

    kubelets.heal().await;
    let restored = trials.iter().zip(replicas);
    let restored = restored.map(async |(trial, (second, third))| {
        // A machine that stands still for seconds makes the third one lead.
        let third_leads = tokio::select! {
            _ = second.until_held() => false,
            _ = third.until_held() => true,
        };
        let (leader, successor) = if third_leads {
            (third, second)
        } else {
            (second, third)
        };
        successor.door.rule(|_| Ruling::Pass);
        leader.prober.kelpie.kill();
        let restored = trial.shoot.until_restored(RESTORED, PATIENCE);
        restored.await.unwrap();
        stage.until_caught_up(&trial.shoot).await;
        assert_each_step_was_made_once(&stage, &trial.shoot, start, 1);
    });
    join_all(restored).await;
}

/// The write at which a leader is stopped waits outside until its successor has done and undone it.
#[tokio::test]
async fn a_leader_stopped_at_any_write_that_goes_on_later_changes_nothing() {
    let stage = Stage::start().await;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, Pace::QUICK).await.unwrap();
    let trials = trials(&stage, &kubelets).await;
    let start = Instant::now();

    let pairs = trials.iter().map(async |trial| {
        let leader = trial.leader(&stage).await;
        leader.stops_at(trial.write, &Ruling::Hold);
        let second = trial.replica(&stage).await;
        leader.until_stopped().await;
        trial.shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        (leader, second)
    });
    let pairs = join_all(pairs).await;
    kubelets.heal().await;
    let checked = trials.iter().zip(&pairs);
    let checked = checked.map(async |(trial, (stopped, leader))| {
        let restored = trial.shoot.until_restored(RESTORED, PATIENCE);
        restored.await.unwrap();
        stopped.goes_on().await;
        assert!(leads(&leader.prober).await);
    });
    join_all(checked).await;

    // Now the other one leads, and is stopped on the way up.
    kubelets.cut(1.0).await;
    for (trial, (_, leader)) in trials.iter().zip(&pairs) {
        trial.shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        leader.stops_at(trial.write, &Ruling::Hold);
    }
    kubelets.heal().await;
    let restored = trials.iter().zip(&pairs);
    let restored = restored.map(async |(trial, (_, leader))| {
        leader.until_stopped().await;
        let restored = trial.shoot.until_restored(RESTORED, PATIENCE);
        restored.await.unwrap();
    });
    join_all(restored).await;
    // Its write would break the next fence.
    kubelets.cut(1.0).await;
    let checked = trials.iter().zip(&pairs);
    let checked = checked.map(async |(trial, (leader, stopped))| {
        trial.shoot.until_counts(FENCED, PATIENCE).await.unwrap();
        stopped.goes_on().await;
        assert!(leads(&leader.prober).await);
        assert_eq!(trial.shoot.counts().await.unwrap(), FENCED);
    });
    join_all(checked).await;
    kubelets.heal().await;
    for trial in &trials {
        let restored = trial.shoot.until_restored(RESTORED, PATIENCE);
        restored.await.unwrap();
        stage.until_caught_up(&trial.shoot).await;
        assert_each_step_was_made_once(&stage, &trial.shoot, start, 3);
    }
}

/// No successor has touched anything: the versions of all targets are as the leader knows them, and
/// nothing but its own clock tells it that its time is over.
#[tokio::test]
async fn a_leader_that_slept_past_its_lease_writes_nothing_before_it_leads_again() {
    let election = [
        "--enable-leader-election=true",
        "--leader-elect-lease-duration=2s",
        "--leader-elect-renew-deadline=1s",
        "--leader-elect-retry-period=200ms",
    ];
    // Past the renew deadline, and well before a call is given up.
    let nap = Duration::from_millis(1_500);
    let stage = Stage::start().await;
    let pace = Pace::QUICK;
    let client = &stage.seed.client;
    let kubelets = Kubelets::start_cut(client, 3, pace).await.unwrap();
    let shoots = [
        stage.shoot("one", &kubelets).await,
        stage.shoot("two", &kubelets).await,
        stage.shoot("three", &kubelets).await,
    ];
    let names = [KCM, MCM, CA];
    let all_at_once = names.map(|name| Target::deployment(name, 0, 0));
    let config = ProberConfig::of(pace, all_at_once.to_vec());
    let door = stage.doorman().await;
    let all = shoots.len() * names.len();
    let mut written = BTreeSet::new();
    door.rule(move |asked| {
        // It has to lead until the last write, however far apart the shoots trip.
        if asked.is_write_on_target() {
            written.insert(asked.object().to_owned());
            Ruling::HoldAnswer
        } else if asked.is_on_lease() && written.len() == all {
            Ruling::Hold
        } else {
            Ruling::Pass
        }
    });
    let leader = stage.prober_by(&door, &config, &election).await;
    let held = poll::until("a write to each target", PATIENCE, async || {
        let held = door.held().into_iter().filter(Asked::is_write_on_target);
        let targets: BTreeSet<_> = held.map(|asked| asked.object().to_owned()).collect();
        Ok((targets.len() == all).then_some(()))
    });
    held.await.unwrap();
    stop(&leader).await;
    sleep(nap).await;

    // All is answered now, except that nobody lets it lead.
    door.rule(|asked| {
        if asked.is_on_lease() {
            Ruling::Hold
        } else {
            Ruling::Pass
        }
    });
    door.let_go();
    let went_on = Instant::now();
    leader.kelpie.process().signal("CONT").unwrap();
    until_rounds(&leader, 4.0).await;
    assert!(!leads(&leader).await);
    let mut since = door.asked();
    since.retain(|asked| asked.at >= went_on && asked.is_write_on_target());
    assert!(since.is_empty(), "{since:#?}");

    door.rule(|_| Ruling::Pass);
    door.let_go();
    for shoot in &shoots {
        shoot.until_counts(FENCED, PATIENCE).await.unwrap();
    }
}

/// A shoot with an election of its own, and the write at which something happens.
struct Trial {
    shoot: Shoot,
    write: usize,
}

async fn trials(stage: &Stage, kubelets: &Kubelets) -> Vec<Trial> {
    let mut trials = Vec::new();
    for write in 1..=WRITES {
        let shoot = stage.shoot(&format!("write-{write}"), kubelets).await;
        trials.push(Trial { shoot, write });
    }
    trials
}

/// A prober and its way to the seed.
struct Replica {
    prober: Prober,
    door: Doorman,
    shoot: Shoot,
}

impl Trial {
    async fn replica(&self, stage: &Stage) -> Replica {
        let config = one_by_one(Pace::QUICK).only(&self.shoot.name);
        let namespace = format!("--leader-election-namespace={}", self.shoot.name);
        let flags: Vec<&str> = ELECTION.into_iter().chain([namespace.as_str()]).collect();
        let door = stage.doorman().await;
        Replica {
            prober: stage.prober_by(&door, &config, &flags).await,
            door,
            shoot: self.shoot.clone(),
        }
    }

    async fn leader(&self, stage: &Stage) -> Replica {
        let replica = self.replica(stage).await;
        until_leading(&replica.prober).await;
        replica
    }
}

impl Replica {
    /// From its n-th write on, this becomes of all it asks.
    fn stops_at(&self, write: usize, ruling: &Ruling) {
        let (mut writes, ruling) = (0, ruling.clone());
        self.door.rule(move |asked| {
            writes += usize::from(asked.is_write_on_target());
            if writes < write {
                Ruling::Pass
            } else {
                ruling.clone()
            }
        });
    }

    async fn until_held(&self) -> Asked {
        let held = self.door.until_held(PATIENCE, Asked::is_write_on_target);
        held.await.unwrap()
    }

    /// Stops the process while its write waits outside.
    async fn until_stopped(&self) {
        let at = self.until_held().await;
        stop(&self.prober).await;
        println!("stopped at {} {}", at.method, at.path);
    }

    /// Lets the process go on, and what it has sent: it finds out that it leads no longer, and nothing
    /// changes.
    async fn goes_on(&self) {
        let went_on = Instant::now();
        self.door.rule(|_| Ruling::Pass);
        self.door.let_go();
        self.prober.kelpie.process().signal("CONT").unwrap();
        until_rounds(&self.prober, 3.0).await;
        assert!(!leads(&self.prober).await);
        let mut since = self.door.asked();
        since.retain(|asked| asked.at >= went_on && asked.is_write_on_target());
        assert!(since.is_empty(), "{}: {since:#?}", self.shoot.name);
    }
}

async fn stop(prober: &Prober) {
    let process = prober.kelpie.process();
    process.signal("STOP").unwrap();
    let stopped = poll::until("a stopped process", PATIENCE, async || {
        Ok(process.is_stopped()?.then_some(()))
    });
    stopped.await.unwrap();
}
