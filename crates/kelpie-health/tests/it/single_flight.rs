//! Deadlines, shared runs and reused results, in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_health::{
    CheckGroup, CheckResult, FailureReason, Health, HealthCheck, HealthSettings, SharedCall,
};
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep, sleep_until};

use crate::fixture::{FOREVER, ScriptedCheck, failed, health, health_with, millis, probe};

fn health_of(check: &ScriptedCheck) -> Health {
    health(|checks| {
        checks.both("a", check.clone());
    })
    .0
}

fn outcome(text: &str, took: u128) -> (Vec<String>, u128) {
    (vec![text.to_owned()], took)
}

#[tokio::test(start_paused = true)]
async fn concurrent_probes_share_one_run() {
    let check = ScriptedCheck::new([(millis(100), Ok(()))]);
    let health = health_of(&check);
    let groups = CheckGroup::ALL.into_iter().cycle();
    let answers = join_all(groups.take(50).map(|group| probe(&health, group))).await;
    assert!(answers.iter().all(|answer| *answer == outcome("a ok", 100)));
    assert_eq!(check.runs(), 1);
    probe(&health, CheckGroup::Livez).await;
    assert_eq!(check.runs(), 2, "a finished run is never shared");
}

#[tokio::test(start_paused = true)]
async fn waiters_leave_and_the_run_continues() {
    let check = ScriptedCheck::new([(millis(2_000), Ok(()))]);
    let health = health_of(&check);
    let (readyz, livez) = tokio::join!(
        probe(&health, CheckGroup::Readyz),
        probe(&health, CheckGroup::Livez)
    );
    assert_eq!(readyz, outcome("a: not known yet", 900));
    assert_eq!(livez, outcome("a ok", 2_000));
    assert_eq!(check.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn run_older_than_the_deadline_is_not_joined() {
    let check = ScriptedCheck::new([(FOREVER, Ok(())), (millis(10), Ok(()))]);
    let health = health_of(&check);
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a: not known yet", 900)
    );
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a: not known yet", 900),
        "a run of 900 ms is still joined"
    );
    assert_eq!(check.runs(), 1);
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a ok", 10)
    );
    assert_eq!(check.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn newer_result_frees_waiters_of_older_run() {
    let check = ScriptedCheck::new([(FOREVER, Ok(())), (millis(10), failed("no leader"))]);
    let health = health_of(&check);
    let later = async {
        sleep(millis(1_000)).await;
        probe(&health, CheckGroup::Readyz).await
    };
    let (livez, readyz) = tokio::join!(probe(&health, CheckGroup::Livez), later);
    assert_eq!(readyz, outcome("a: no leader", 10));
    assert_eq!(livez, outcome("a: no leader", 1_010));
}

#[tokio::test(start_paused = true)]
async fn at_most_two_runs_at_once() {
    let check = ScriptedCheck::hanging();
    let health = health_of(&check);
    for _ in 0..10 {
        sleep(millis(100)).await;
        let probes = (0..50).map(|_| probe(&health, CheckGroup::Readyz));
        for answer in join_all(probes).await {
            assert_eq!(answer, outcome("a: not known yet", 900));
        }
    }
    assert_eq!(
        (check.runs(), check.max_running(), check.running()),
        (2, 2, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn freed_slot_starts_a_new_run() {
    let check = ScriptedCheck::new([
        (millis(3_000), failed("old")),
        (FOREVER, Ok(())),
        (millis(50), Ok(())),
    ]);
    let health = health_of(&check);
    probe(&health, CheckGroup::Readyz).await;
    sleep(millis(100)).await;
    probe(&health, CheckGroup::Readyz).await;
    sleep(millis(700)).await;
    assert_eq!(check.running(), 2, "running for 1.6 s and 2.6 s");
    let probes = (0..50).map(|_| probe(&health, CheckGroup::Readyz));
    for answer in join_all(probes).await {
        assert_eq!(
            answer,
            outcome("a ok", 450),
            "400 ms for the slot, 50 ms to run"
        );
    }
    assert_eq!((check.runs(), check.max_running()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn readyz_reuses_a_result_for_five_seconds() {
    for (verdict, words) in [(Ok(()), "a ok"), (failed("no leader"), "a: no leader")] {
        let check = ScriptedCheck::new([(Duration::ZERO, verdict), (FOREVER, Ok(()))]);
        let health = health_of(&check);
        let begin = Instant::now();
        assert_eq!(probe(&health, CheckGroup::Readyz).await, outcome(words, 0));
        sleep_until(begin + millis(4_099)).await;
        assert_eq!(
            probe(&health, CheckGroup::Readyz).await,
            outcome(words, 900)
        );
        sleep_until(begin + millis(5_000)).await;
        assert_eq!(
            probe(&health, CheckGroup::Readyz).await,
            outcome("a: timed out", 900)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn livez_never_reuses_a_result() {
    let check = ScriptedCheck::new([(Duration::ZERO, Ok(())), (FOREVER, Ok(()))]);
    let health = health_of(&check);
    assert_eq!(probe(&health, CheckGroup::Livez).await, outcome("a ok", 0));
    assert_eq!(
        probe(&health, CheckGroup::Livez).await,
        outcome("a: timed out", 4_000)
    );
}

/// A check whose last result stays valid while a condition holds.
struct ReuseLastWhile<F>(ScriptedCheck, F);

impl<F: Fn() -> bool + Send + Sync + 'static> HealthCheck for ReuseLastWhile<F> {
    async fn run(&self) -> CheckResult {
        self.0.run().await
    }

    fn may_reuse_last(&self) -> bool {
        (self.1)()
    }
}

#[tokio::test(start_paused = true)]
async fn valid_result_is_reused_at_any_age() {
    let check = ScriptedCheck::new([(Duration::ZERO, Ok(())), (FOREVER, Ok(()))]);
    let defrag = Arc::new(AtomicBool::new(true));
    let running = Arc::clone(&defrag);
    let (health, _) = health(|checks| {
        let held = ReuseLastWhile(check.clone(), move || running.load(Ordering::SeqCst));
        checks.both("a", held);
    });
    probe(&health, CheckGroup::Readyz).await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a ok", 900)
    );
    assert_eq!(
        probe(&health, CheckGroup::Livez).await,
        outcome("a: timed out", 4_000)
    );
    defrag.store(false, Ordering::SeqCst);
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a: timed out", 900)
    );
}

/// A check that sees after 100 ms that its last result is still valid.
struct ReusableCheck(ScriptedCheck);

impl HealthCheck for ReusableCheck {
    async fn run(&self) -> CheckResult {
        self.0.run().await
    }

    fn may_reuse_last(&self) -> bool {
        true
    }

    async fn wait_until_reusable(&self) {
        sleep(millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn valid_result_is_reused_before_the_deadline() {
    let hangs_later = ScriptedCheck::new([(millis(200), Ok(())), (FOREVER, Ok(()))]);
    let (health, _) = health(|checks| {
        checks.both("a", ReusableCheck(hangs_later));
    });
    let first = probe(&health, CheckGroup::Readyz).await;
    assert_eq!(first, outcome("a ok", 200), "there is nothing to reuse yet");
    sleep(Duration::from_mins(5)).await;
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a ok", 100)
    );
    let livez = probe(&health, CheckGroup::Livez).await;
    assert_eq!(livez, outcome("a: timed out", 4_000), "livez never reuses");
}

#[tokio::test(start_paused = true)]
async fn hanging_or_panicking_check_fails_alone() {
    let (health, _) = health(|checks| {
        checks.readyz("good", ScriptedCheck::returning(Ok(())));
        checks.readyz("hangs", ScriptedCheck::hanging());
        checks.readyz("slow", ScriptedCheck::new([(millis(899), Ok(()))]));
        checks.readyz("panics", async || panic!("index {} is out\nof bounds", 7));
        checks.readyz("at_once", || -> std::future::Ready<_> { panic!("early") });
        checks.readyz("oddly", async || std::panic::panic_any(7));
        let unsure = ReuseLastWhile(ScriptedCheck::hanging(), || panic!("unsure"));
        checks.readyz("unsure", unsure);
        checks.readyz("failed", ScriptedCheck::returning(failed("no leader")));
    });
    let words = [
        "good ok",
        "hangs: not known yet",
        "slow ok",
        "panics: panicked: index 7 is out of bounds",
        "at_once: panicked: early",
        "oddly: panicked: no reason",
        "unsure: not known yet",
        "failed: no leader",
    ];
    let (seen, took) = probe(&health, CheckGroup::Readyz).await;
    assert_eq!((seen, took), (words.map(str::to_owned).to_vec(), 900));
}

#[tokio::test(start_paused = true)]
async fn checks_run_concurrently() {
    let (health, _) = health(|checks| {
        for name in ["a", "b", "c", "d"] {
            checks.livez(name, ScriptedCheck::new([(millis(3_000), Ok(()))]));
        }
    });
    assert_eq!(probe(&health, CheckGroup::Livez).await.1, 3_000);
}

#[tokio::test(start_paused = true)]
async fn hanging_run_is_dropped_without_a_result() {
    let check = ScriptedCheck::new([(FOREVER, Ok(())), (FOREVER, Ok(())), (millis(5), Ok(()))]);
    let health = health_of(&check);
    probe(&health, CheckGroup::Readyz).await;
    sleep(millis(100)).await;
    probe(&health, CheckGroup::Readyz).await;
    sleep(Duration::from_secs(27)).await;
    assert_eq!(check.running(), 2);
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a: not known yet", 900)
    );
    sleep(Duration::from_secs(2)).await;
    assert_eq!(check.running(), 0, "after 30 s each");
    assert_eq!(probe(&health, CheckGroup::Readyz).await, outcome("a ok", 5));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_dropped_run_get_another() {
    let check = ScriptedCheck::new([(FOREVER, failed("old")), (millis(5), Ok(()))]);
    let check = check.clone();
    let call = SharedCall::new(Duration::from_secs(1), move || {
        let check = check.clone();
        async move { check.run().await }
    });
    let started_at = Instant::now();
    assert_eq!(call.get(FOREVER).await, Ok(Ok(())));
    assert_eq!(started_at.elapsed(), millis(1_005));
    assert_eq!(call.last(), Some((Ok(Ok(())), Duration::ZERO)));
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_configurable() {
    let settings = HealthSettings {
        livez_deadline: millis(500),
        readyz_deadline: millis(200),
        max_reuse_age: millis(1_000),
        ..HealthSettings::default()
    };
    let check = ScriptedCheck::new([(millis(100), Ok(())), (FOREVER, Ok(()))]);
    let (health, _) = health_with(settings, |checks| {
        checks.both("a", check.clone());
    });
    assert_eq!(health.settings().deadline(CheckGroup::Livez), millis(500));
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a ok", 100)
    );
    assert_eq!(
        probe(&health, CheckGroup::Livez).await,
        outcome("a: timed out", 500)
    );
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a ok", 200)
    );
    sleep(millis(1_000)).await;
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a: timed out", 200)
    );
}

#[tokio::test(start_paused = true)]
async fn checks_share_a_call() {
    let check = ScriptedCheck::new([(millis(10), Ok(()))]);
    let mut registry = Registry::default();
    let mut checks = Health::builder(HealthSettings::default(), &mut registry);
    let status = checks.shared_call("status", {
        let check = check.clone();
        move || {
            let check = check.clone();
            async move { check.run().await.map(|()| 7) }
        }
    });
    let is = |wanted: i32| {
        status.check(millis(900), move |status| match status {
            Ok(number) if *number == wanted => Ok(()),
            Ok(number) => Err(FailureReason::of(number)),
            Err(reason) => Err(reason.clone()),
        })
    };
    checks.readyz("seven", is(7));
    checks.both("eight", is(8));
    let health = checks.build().unwrap();
    let (readyz, livez) = tokio::join!(
        probe(&health, CheckGroup::Readyz),
        probe(&health, CheckGroup::Livez)
    );
    assert_eq!(readyz.0, ["seven ok", "eight: 7"]);
    assert_eq!(livez.0, ["eight: 7"]);
    assert_eq!(check.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropped_probe_leaves_its_run() {
    let check = ScriptedCheck::new([(millis(500), Ok(()))]);
    let health = health_of(&check);
    let asking = health.clone();
    let gone = tokio::spawn(async move { asking.probe(CheckGroup::Readyz).await });
    check.wait_for_runs(1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    sleep(millis(100)).await;
    assert_eq!(check.running(), 1);
    assert_eq!(
        probe(&health, CheckGroup::Readyz).await,
        outcome("a ok", 400)
    );
    assert_eq!(check.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn runs_end_with_the_last_handle() {
    let check = ScriptedCheck::hanging();
    let health = health_of(&check);
    probe(&health, CheckGroup::Readyz).await;
    assert_eq!(check.running(), 1);
    drop(health);
    sleep(millis(1)).await;
    assert_eq!(check.running(), 0);
}

/// For any durations of runs and any arrival of probes: no probe waits past its deadline, at most
/// two runs are in progress, and livez reports only runs that it could have waited for.
#[tokio::test(start_paused = true)]
async fn invariants_hold_for_any_timing() {
    for rng_seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(rng_seed);
        let script = (0..100).map(|line| {
            let takes = [10, 700, 1_500, 4_500, 9_000, 40_000][rng.usize(..6)];
            (millis(rng.u64(..takes)), failed(&line.to_string()))
        });
        let check = ScriptedCheck::new(script.collect::<Vec<_>>());
        let health = health_of(&check);
        let probes = (0..60).map(|_| {
            let group = CheckGroup::ALL[rng.usize(..2)];
            let comes = millis(rng.u64(..60_000));
            let (health, check) = (&health, &check);
            async move {
                sleep(comes).await;
                let started = check.runs();
                let (words, took) = probe(health, group).await;
                let deadline = health.settings().deadline(group).as_millis();
                let late = ["a: timed out", "a: not known yet"].contains(&words[0].as_str());
                assert!(took <= deadline, "run {rng_seed}: {took} ms");
                assert!(!late || took == deadline, "run {rng_seed}: left early");
                if group == CheckGroup::Livez && !late {
                    let run: usize = words[0][3..].parse().unwrap();
                    assert!(run + 2 >= started, "run {rng_seed}: run {run} of {started}");
                }
            }
        });
        join_all(probes.collect::<Vec<_>>()).await;
        assert!(
            check.max_running() <= 2,
            "run {rng_seed}: {} out",
            check.max_running()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_waiter_is_woken_on_many_threads() {
    let check = ScriptedCheck::returning(Ok(()));
    let health = health_of(&check);
    let askers = (0..16).map(|_| {
        let health = health.clone();
        tokio::spawn(async move {
            for _ in 0..500 {
                assert!(health.probe(CheckGroup::Livez).await.is_ok());
            }
        })
    });
    for asker in askers.collect::<Vec<_>>() {
        asker.await.unwrap();
    }
    assert!(check.max_running() <= 2);
    assert!(check.runs() <= 16 * 500);
}
