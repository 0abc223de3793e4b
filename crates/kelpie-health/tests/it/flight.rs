//! Deadlines, shared runs and repeated results, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use kelpie_health::{Check, Group, Health, Reason, Settings, Shared, Verdict};
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep, sleep_until};

use crate::stage::{Actor, FOREVER, bad, health, health_with, millis, probe};

fn one(check: &Actor) -> Health {
    health(|checks| {
        checks.both("a", check.clone());
    })
    .0
}

fn says(words: &str, took: u128) -> (Vec<String>, u128) {
    (vec![words.to_owned()], took)
}

#[tokio::test(start_paused = true)]
async fn fifty_probes_at_once_cost_one_run() {
    let actor = Actor::new([(millis(100), Ok(()))]);
    let health = one(&actor);
    let groups = Group::ALL.into_iter().cycle();
    let answers = join_all(groups.take(50).map(|group| probe(&health, group))).await;
    assert!(answers.iter().all(|answer| *answer == says("a ok", 100)));
    assert_eq!(actor.runs(), 1);
    probe(&health, Group::Livez).await;
    assert_eq!(actor.runs(), 2, "a result is never shared with the next");
}

#[tokio::test(start_paused = true)]
async fn every_waiter_leaves_at_its_own_deadline_and_the_run_goes_on() {
    let actor = Actor::new([(millis(2_000), Ok(()))]);
    let health = one(&actor);
    let (readyz, livez) = tokio::join!(probe(&health, Group::Readyz), probe(&health, Group::Livez));
    assert_eq!(readyz, says("a: not known yet", 900));
    assert_eq!(livez, says("a ok", 2_000));
    assert_eq!(actor.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_older_than_the_deadline_is_not_joined() {
    let actor = Actor::new([(FOREVER, Ok(())), (millis(10), Ok(()))]);
    let health = one(&actor);
    assert_eq!(
        probe(&health, Group::Readyz).await,
        says("a: not known yet", 900)
    );
    assert_eq!(
        probe(&health, Group::Readyz).await,
        says("a: not known yet", 900),
        "of age 900 ms: it is still joined"
    );
    assert_eq!(actor.runs(), 1);
    assert_eq!(probe(&health, Group::Readyz).await, says("a ok", 10));
    assert_eq!(actor.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_a_younger_run_frees_those_who_wait_for_an_older_one() {
    let actor = Actor::new([(FOREVER, Ok(())), (millis(10), bad("no leader"))]);
    let health = one(&actor);
    let later = async {
        sleep(millis(1_000)).await;
        probe(&health, Group::Readyz).await
    };
    let (livez, readyz) = tokio::join!(probe(&health, Group::Livez), later);
    assert_eq!(readyz, says("a: no leader", 10));
    assert_eq!(livez, says("a: no leader", 1_010));
}

#[tokio::test(start_paused = true)]
async fn at_most_two_runs_are_out() {
    let actor = Actor::hangs();
    let health = one(&actor);
    for _ in 0..10 {
        sleep(millis(100)).await;
        let probes = (0..50).map(|_| probe(&health, Group::Readyz));
        for answer in join_all(probes).await {
            assert_eq!(answer, says("a: not known yet", 900));
        }
    }
    assert_eq!((actor.runs(), actor.most_out(), actor.out()), (2, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn who_finds_two_old_runs_gets_a_new_one_when_one_ends() {
    let actor = Actor::new([
        (millis(3_000), bad("old")),
        (FOREVER, Ok(())),
        (millis(50), Ok(())),
    ]);
    let health = one(&actor);
    probe(&health, Group::Readyz).await;
    sleep(millis(100)).await;
    probe(&health, Group::Readyz).await;
    sleep(millis(700)).await;
    assert_eq!(actor.out(), 2, "1.6 s and 2.6 s of age");
    let probes = (0..50).map(|_| probe(&health, Group::Readyz));
    for answer in join_all(probes).await {
        assert_eq!(answer, says("a ok", 450), "400 ms for the place, 50 to run");
    }
    assert_eq!((actor.runs(), actor.most_out()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn readyz_repeats_a_result_that_is_younger_than_five_seconds() {
    for (verdict, words) in [(Ok(()), "a ok"), (bad("no leader"), "a: no leader")] {
        let actor = Actor::new([(Duration::ZERO, verdict), (FOREVER, Ok(()))]);
        let health = one(&actor);
        let begin = Instant::now();
        assert_eq!(probe(&health, Group::Readyz).await, says(words, 0));
        sleep_until(begin + millis(4_099)).await;
        assert_eq!(probe(&health, Group::Readyz).await, says(words, 900));
        sleep_until(begin + millis(5_000)).await;
        assert_eq!(
            probe(&health, Group::Readyz).await,
            says("a: timed out", 900)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn livez_never_repeats_a_result() {
    let actor = Actor::new([(Duration::ZERO, Ok(())), (FOREVER, Ok(()))]);
    let health = one(&actor);
    assert_eq!(probe(&health, Group::Livez).await, says("a ok", 0));
    assert_eq!(
        probe(&health, Group::Livez).await,
        says("a: timed out", 4_000)
    );
}

#[tokio::test(start_paused = true)]
async fn a_result_that_holds_is_repeated_at_any_age_in_readyz_alone() {
    let actor = Actor::new([(Duration::ZERO, Ok(())), (FOREVER, Ok(()))]);
    let defrag = Arc::new(AtomicBool::new(true));
    let running = Arc::clone(&defrag);
    let (health, _) = health(|checks| {
        let held = actor
            .clone()
            .held_while(move || running.load(Ordering::SeqCst));
        checks.both("a", held);
    });
    probe(&health, Group::Readyz).await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(probe(&health, Group::Readyz).await, says("a ok", 900));
    assert_eq!(
        probe(&health, Group::Livez).await,
        says("a: timed out", 4_000)
    );
    defrag.store(false, Ordering::SeqCst);
    assert_eq!(
        probe(&health, Group::Readyz).await,
        says("a: timed out", 900)
    );
}

/// A check that knows after a while that its last result has to do.
struct Resigned(Actor);

impl Check for Resigned {
    async fn run(&self) -> Verdict {
        self.0.run().await
    }

    fn holds(&self) -> bool {
        true
    }

    async fn held(&self) {
        sleep(millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_known_to_hold_is_repeated_before_the_deadline() {
    let hangs_later = Actor::new([(millis(200), Ok(())), (FOREVER, Ok(()))]);
    let (health, _) = health(|checks| {
        checks.both("a", Resigned(hangs_later));
    });
    let first = probe(&health, Group::Readyz).await;
    assert_eq!(first, says("a ok", 200), "there is nothing to repeat yet");
    sleep(Duration::from_mins(5)).await;
    assert_eq!(probe(&health, Group::Readyz).await, says("a ok", 100));
    let livez = probe(&health, Group::Livez).await;
    assert_eq!(livez, says("a: timed out", 4_000), "livez never repeats");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_or_panics_fails_alone() {
    let (health, _) = health(|checks| {
        checks.readyz("good", Actor::says(Ok(())));
        checks.readyz("hangs", Actor::hangs());
        checks.readyz("slow", Actor::new([(millis(899), Ok(()))]));
        checks.readyz("panics", async || panic!("index {} is out\nof bounds", 7));
        checks.readyz("at_once", || -> std::future::Ready<_> { panic!("early") });
        checks.readyz("oddly", async || std::panic::panic_any(7));
        let unsure = Actor::hangs().held_while(|| panic!("unsure"));
        checks.readyz("unsure", unsure);
        checks.readyz("bad", Actor::says(bad("no leader")));
    });
    let words = [
        "good ok",
        "hangs: not known yet",
        "slow ok",
        "panics: panicked: index 7 is out of bounds",
        "at_once: panicked: early",
        "oddly: panicked: no reason",
        "unsure: not known yet",
        "bad: no leader",
    ];
    let (seen, took) = probe(&health, Group::Readyz).await;
    assert_eq!((seen, took), (words.map(str::to_owned).to_vec(), 900));
}

#[tokio::test(start_paused = true)]
async fn checks_run_at_the_same_time() {
    let (health, _) = health(|checks| {
        for name in ["a", "b", "c", "d"] {
            checks.livez(name, Actor::new([(millis(3_000), Ok(()))]));
        }
    });
    assert_eq!(probe(&health, Group::Livez).await.1, 3_000);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_hangs_is_dropped_in_the_end_and_says_nothing() {
    let actor = Actor::new([(FOREVER, Ok(())), (FOREVER, Ok(())), (millis(5), Ok(()))]);
    let health = one(&actor);
    probe(&health, Group::Readyz).await;
    sleep(millis(100)).await;
    probe(&health, Group::Readyz).await;
    sleep(Duration::from_secs(27)).await;
    assert_eq!(actor.out(), 2);
    assert_eq!(
        probe(&health, Group::Readyz).await,
        says("a: not known yet", 900)
    );
    sleep(Duration::from_secs(2)).await;
    assert_eq!(actor.out(), 0, "after 30 s each");
    assert_eq!(probe(&health, Group::Readyz).await, says("a ok", 5));
}

#[tokio::test(start_paused = true)]
async fn who_joined_a_run_that_is_dropped_gets_another() {
    let actor = Actor::new([(FOREVER, bad("old")), (millis(5), Ok(()))]);
    let check = actor.clone();
    let call = Shared::new(Duration::from_secs(1), move || {
        let check = check.clone();
        async move { check.run().await }
    });
    let began = Instant::now();
    assert_eq!(call.get(FOREVER).await, Ok(Ok(())));
    assert_eq!(began.elapsed(), millis(1_005));
    assert_eq!(call.last(), Some((Ok(Ok(())), Duration::ZERO)));
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_a_choice() {
    let settings = Settings {
        livez_deadline: millis(500),
        readyz_deadline: millis(200),
        reuse: millis(1_000),
        ..Settings::default()
    };
    let actor = Actor::new([(millis(100), Ok(())), (FOREVER, Ok(()))]);
    let (health, _) = health_with(settings, |checks| {
        checks.both("a", actor.clone());
    });
    assert_eq!(health.settings().deadline(Group::Livez), millis(500));
    assert_eq!(probe(&health, Group::Readyz).await, says("a ok", 100));
    assert_eq!(
        probe(&health, Group::Livez).await,
        says("a: timed out", 500)
    );
    assert_eq!(probe(&health, Group::Readyz).await, says("a ok", 200));
    sleep(millis(1_000)).await;
    assert_eq!(
        probe(&health, Group::Readyz).await,
        says("a: timed out", 200)
    );
}

#[tokio::test(start_paused = true)]
async fn checks_that_need_the_same_call_share_it() {
    let actor = Actor::new([(millis(10), Ok(()))]);
    let mut registry = Registry::default();
    let mut checks = Health::builder(Settings::default(), &mut registry);
    let status = checks.shared("status", {
        let actor = actor.clone();
        move || {
            let actor = actor.clone();
            async move { actor.run().await.map(|()| 7) }
        }
    });
    let is = |wanted: i32| {
        status.check(millis(900), move |status| match status {
            Ok(number) if *number == wanted => Ok(()),
            Ok(number) => Err(Reason::of(number)),
            Err(reason) => Err(reason.clone()),
        })
    };
    checks.readyz("seven", is(7));
    checks.both("eight", is(8));
    let health = checks.build().unwrap();
    let (readyz, livez) = tokio::join!(probe(&health, Group::Readyz), probe(&health, Group::Livez));
    assert_eq!(readyz.0, ["seven ok", "eight: 7"]);
    assert_eq!(livez.0, ["eight: 7"]);
    assert_eq!(actor.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_leaves_its_run_alone() {
    let actor = Actor::new([(millis(500), Ok(()))]);
    let health = one(&actor);
    let asking = health.clone();
    let gone = tokio::spawn(async move { asking.probe(Group::Readyz).await });
    actor.started(1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    sleep(millis(100)).await;
    assert_eq!(actor.out(), 1);
    assert_eq!(probe(&health, Group::Readyz).await, says("a ok", 400));
    assert_eq!(actor.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn runs_end_with_the_last_handle_to_their_check() {
    let actor = Actor::hangs();
    let health = one(&actor);
    probe(&health, Group::Readyz).await;
    assert_eq!(actor.out(), 1);
    drop(health);
    sleep(millis(1)).await;
    assert_eq!(actor.out(), 0);
}

/// Whatever the runs do and whenever probes come: nobody waits past their deadline, two runs are
/// out at most, and what livez says was learnt from a run that it could wait for.
#[tokio::test(start_paused = true)]
async fn the_promises_hold_for_any_timing() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let script = (0..100).map(|line| {
            let takes = [10, 700, 1_500, 4_500, 9_000, 40_000][random.usize(..6)];
            (millis(random.u64(..takes)), bad(&line.to_string()))
        });
        let actor = Actor::new(script.collect::<Vec<_>>());
        let health = one(&actor);
        let probes = (0..60).map(|_| {
            let group = Group::ALL[random.usize(..2)];
            let comes = millis(random.u64(..60_000));
            let (health, actor) = (&health, &actor);
            async move {
                sleep(comes).await;
                let started = actor.runs();
                let (words, took) = probe(health, group).await;
                let deadline = health.settings().deadline(group).as_millis();
                let late = ["a: timed out", "a: not known yet"].contains(&words[0].as_str());
                assert!(took <= deadline, "seed {seed}: {took} ms");
                assert!(!late || took == deadline, "seed {seed}: left early");
                if group == Group::Livez && !late {
                    let run: usize = words[0][3..].parse().unwrap();
                    assert!(run + 2 >= started, "seed {seed}: run {run} of {started}");
                }
            }
        });
        join_all(probes.collect::<Vec<_>>()).await;
        assert!(
            actor.most_out() <= 2,
            "seed {seed}: {} out",
            actor.most_out()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_forgotten_on_many_threads() {
    let actor = Actor::says(Ok(()));
    let health = one(&actor);
    let askers = (0..16).map(|_| {
        let health = health.clone();
        tokio::spawn(async move {
            for _ in 0..500 {
                assert!(health.probe(Group::Livez).await.is_ok());
            }
        })
    });
    for asker in askers.collect::<Vec<_>>() {
        asker.await.unwrap();
    }
    assert!(actor.most_out() <= 2);
    assert!(actor.runs() <= 16 * 500);
}
