//! The leader is killed or suspended at each write of a fence and of a restore, and a standby takes
//! over.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_e2e::landscape::{
    InterceptAction, InterceptedRequest, Interceptor, Kubelets, ProberConfigFile, ProberProcess,
    ShootCluster, TargetConfig, Timings,
};
use kelpie_e2e::poll;
use tokio::time::{Instant, sleep};

use super::fixture::*;

/// The writes at which a leader fails, in each direction: one for each target but
/// kube-controller-manager, which a warm standby fences itself if its leader is late.
const WRITES: usize = 2;

#[tokio::test]
async fn standby_continues_after_leader_is_killed() {
    let fixture = Fixture::start().await;
    let kubelets = fixture.kubelets(3, Timings::QUICK).await;
    let trials = trials(&fixture, &kubelets).await;
    let start = Instant::now();

    let action = InterceptAction::HoldResponse;
    let pairs = pairs(&fixture, &trials, &action).await;
    kubelets.partition(1.0).await;
    let replicas = trials.iter().zip(pairs);
    let replicas = replicas.map(async |(trial, (leader, second))| {
        leader.until_held().await;
        leader.prober.kelpie.kill();
        trial.shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
        let third = trial.replica(&fixture).await;
        for replica in [&second, &third] {
            replica.hold_from(trial.write, &InterceptAction::HoldResponse);
        }
        (second, third)
    });
    let replicas = join_all(replicas).await;

    kubelets.heal().await;
    let restored = trials.iter().zip(replicas);
    let restored = restored.map(async |(trial, (second, third))| {
        // The third one leads if the machine stalled for seconds.
        let third_leads = tokio::select! {
            _ = second.until_held() => false,
            _ = third.until_held() => true,
        };
        let (leader, successor) = if third_leads {
            (third, second)
        } else {
            (second, third)
        };
        successor.interceptor.set_rule(|_| InterceptAction::Pass);
        leader.prober.kelpie.kill();
        let restored = trial.shoot.until_restored(RESTORED, TIMEOUT);
        restored.await.unwrap();
        fixture.until_timeline_caught_up(&trial.shoot).await;
        assert_fence_cycles(&fixture, &trial.shoot, start, 1);
    });
    join_all(restored).await;
}

/// The write at which a leader is suspended is delivered only after its successor has made and
/// undone the same write.
#[tokio::test]
async fn late_write_of_suspended_leader_changes_nothing() {
    let fixture = Fixture::start().await;
    let kubelets = fixture.kubelets(3, Timings::QUICK).await;
    let trials = trials(&fixture, &kubelets).await;
    let start = Instant::now();

    let pairs = pairs(&fixture, &trials, &InterceptAction::Hold).await;
    kubelets.partition(1.0).await;
    let suspended = trials.iter().zip(&pairs).map(async |(trial, (leader, _))| {
        leader.suspend_at_held_write().await;
        trial.shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    });
    join_all(suspended).await;
    kubelets.heal().await;
    let checked = trials.iter().zip(&pairs);
    let checked = checked.map(async |(trial, (suspended, leader))| {
        let restored = trial.shoot.until_restored(RESTORED, TIMEOUT);
        restored.await.unwrap();
        suspended.resume().await;
        assert!(leads(&leader.prober.kelpie).await);
    });
    join_all(checked).await;

    // Now the other replica leads and is suspended during the restore.
    kubelets.partition(1.0).await;
    for (trial, (_, leader)) in trials.iter().zip(&pairs) {
        trial.shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
        leader.hold_from(trial.write, &InterceptAction::Hold);
    }
    kubelets.heal().await;
    let restored = trials.iter().zip(&pairs);
    let restored = restored.map(async |(trial, (_, leader))| {
        leader.suspend_at_held_write().await;
        let restored = trial.shoot.until_restored(RESTORED, TIMEOUT);
        restored.await.unwrap();
    });
    join_all(restored).await;
    // Its late write would break the next fence.
    kubelets.partition(1.0).await;
    let checked = trials.iter().zip(&pairs);
    let checked = checked.map(async |(trial, (leader, suspended))| {
        trial.shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
        suspended.resume().await;
        assert!(leads(&leader.prober.kelpie).await);
        assert_eq!(trial.shoot.replicas().await.unwrap(), FENCED);
    });
    join_all(checked).await;
    kubelets.heal().await;
    for trial in &trials {
        let restored = trial.shoot.until_restored(RESTORED, TIMEOUT);
        restored.await.unwrap();
        fixture.until_timeline_caught_up(&trial.shoot).await;
        assert_fence_cycles(&fixture, &trial.shoot, start, 3);
    }
}

/// The leader is suspended between the writes to two targets. No successor has written anything, so
/// the first write succeeds late, and the next one would too. Only its own clock tells the leader
/// that its lease has expired.
#[tokio::test]
async fn resumed_leader_writes_nothing_until_reelected() {
    let election = [
        "--enable-leader-election=true",
        "--leader-elect-lease-duration=2s",
        "--leader-elect-renew-deadline=1s",
        "--leader-elect-retry-period=200ms",
    ];
    // Longer than the renew deadline, and well below the timeout of a request.
    let suspension = Duration::from_millis(1_500);
    let fixture = Fixture::start().await;
    let timings = Timings::QUICK;
    let kubelets = fixture.partitioned_kubelets(3, timings).await;
    let shoots = [
        fixture.shoot("one", &kubelets).await,
        fixture.shoot("two", &kubelets).await,
        fixture.shoot("three", &kubelets).await,
    ];
    // The target of the deadline goes first: a standby would fence it too.
    let targets = vec![
        TargetConfig::deployment(KCM, 0, 2),
        TargetConfig::deployment(MCM, 1, 1),
        TargetConfig::deployment(CA, 1, 0),
    ];
    let config = ProberConfigFile::new(timings, targets).line("fenceReserve: 0s");
    let interceptor = fixture.interceptor().await;
    let all = shoots.len();
    let mut written = BTreeSet::new();
    interceptor.set_rule(move |request| {
        // The leader has to keep its Lease until the last write, however far apart the shoots trip.
        if request.is_deployment_write() {
            written.insert(request.object_path().to_owned());
            InterceptAction::Hold
        } else if request.is_lease_call() && written.len() == all {
            InterceptAction::Hold
        } else {
            InterceptAction::Pass
        }
    });
    let leader = fixture
        .prober_through(&interceptor, &config, &election)
        .await;
    let held = poll::until("a write to each first target", TIMEOUT, async || {
        let held = interceptor
            .held()
            .into_iter()
            .filter(InterceptedRequest::is_deployment_write);
        let targets: BTreeSet<_> = held
            .map(|request| request.object_path().to_owned())
            .collect();
        Ok((targets.len() == all).then_some(()))
    });
    held.await.unwrap();
    suspend(&leader).await;
    let is_later = |request: &InterceptedRequest| {
        request.is_deployment_write() && !request.object_path().ends_with(KCM)
    };
    assert!(!interceptor.requests().iter().any(is_later), "too early");
    sleep(suspension).await;

    // Everything is answered now except the requests for the Lease.
    interceptor.set_rule(|request| {
        if request.is_lease_call() {
            InterceptAction::Hold
        } else {
            InterceptAction::Pass
        }
    });
    interceptor.release_held();
    leader.kelpie.process().signal("CONT").unwrap();
    for shoot in &shoots {
        let first = poll::until("the late write", TIMEOUT, async || {
            let target = shoot.target(KCM).await?;
            Ok((target.replicas == 0).then_some(()))
        });
        first.await.unwrap();
    }
    until_rounds(&leader, 4.0).await;
    assert!(!leads(&leader.kelpie).await);
    let mut later = interceptor.requests();
    later.retain(is_later);
    assert!(later.is_empty(), "{later:#?}");

    interceptor.set_rule(|_| InterceptAction::Pass);
    interceptor.release_held();
    for shoot in &shoots {
        shoot.until_replicas(FENCED, TIMEOUT).await.unwrap();
    }
}

/// A shoot with its own leader election, and the number of the write at which the leader fails.
struct Trial {
    shoot: ShootCluster,
    write: usize,
}

async fn trials(fixture: &Fixture, kubelets: &Kubelets) -> Vec<Trial> {
    let mut trials = Vec::new();
    for write in 1..=WRITES {
        let shoot = fixture.shoot(&format!("write-{write}"), kubelets).await;
        trials.push(Trial { shoot, write });
    }
    trials
}

/// Starts a leader for each trial, whose requests are held from its write on, and a warm standby.
async fn pairs(
    fixture: &Fixture,
    trials: &[Trial],
    action: &InterceptAction,
) -> Vec<(Replica, Replica)> {
    let pairs = trials.iter().map(async |trial| {
        let leader = trial.leader(fixture).await;
        until_healthy(&leader.prober, &trial.shoot).await;
        leader.hold_from(trial.write, action);
        let standby = trial.replica(fixture).await;
        until_ready(&standby.prober).await;
        (leader, standby)
    });
    join_all(pairs).await
}

/// A prober and the interceptor through which it reaches the seed.
struct Replica {
    prober: ProberProcess,
    interceptor: Interceptor,
    shoot: ShootCluster,
}

impl Trial {
    async fn replica(&self, fixture: &Fixture) -> Replica {
        let config = sequential_targets(Timings::QUICK).only(&self.shoot.name);
        let namespace = format!("--leader-election-namespace={}", self.shoot.name);
        let flags: Vec<&str> = ELECTION.into_iter().chain([namespace.as_str()]).collect();
        let interceptor = fixture.interceptor().await;
        Replica {
            prober: fixture.prober_through(&interceptor, &config, &flags).await,
            interceptor,
            shoot: self.shoot.clone(),
        }
    }

    async fn leader(&self, fixture: &Fixture) -> Replica {
        let replica = self.replica(fixture).await;
        until_leading(&replica.prober.kelpie).await;
        replica
    }
}

impl Replica {
    /// Applies `action` to every request from the n-th write to a target on.
    fn hold_from(&self, write: usize, action: &InterceptAction) {
        let (mut writes, action) = (0, action.clone());
        self.interceptor.set_rule(move |request| {
            writes += usize::from(request.is_deployment_write());
            if writes < write {
                InterceptAction::Pass
            } else {
                action.clone()
            }
        });
    }

    async fn until_held(&self) -> InterceptedRequest {
        let held = self
            .interceptor
            .until_held(TIMEOUT, InterceptedRequest::is_deployment_write);
        held.await.unwrap()
    }

    /// Suspends the process as soon as its write is held.
    async fn suspend_at_held_write(&self) {
        let at = self.until_held().await;
        suspend(&self.prober).await;
        println!("suspended at {} {}", at.method, at.path);
    }

    /// Resumes the process and delivers the held write. The process has to notice that it is no
    /// longer the leader, and must not write anything else.
    async fn resume(&self) {
        let resumed = Instant::now();
        self.interceptor.set_rule(|_| InterceptAction::Pass);
        self.interceptor.release_held();
        self.prober.kelpie.process().signal("CONT").unwrap();
        until_rounds(&self.prober, 3.0).await;
        assert!(!leads(&self.prober.kelpie).await);
        let mut since = self.interceptor.requests();
        since.retain(|request| request.at >= resumed && request.is_deployment_write());
        assert!(since.is_empty(), "{}: {since:#?}", self.shoot.name);
    }
}

async fn suspend(prober: &ProberProcess) {
    let process = prober.kelpie.process();
    process.signal("STOP").unwrap();
    let stopped = poll::until("a stopped process", TIMEOUT, async || {
        Ok(process.is_stopped()?.then_some(()))
    });
    stopped.await.unwrap();
}
