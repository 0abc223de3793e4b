//! One run of chaos, from the first second to the last.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use kelpie_core::Time;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::crew::Crew;
use super::trace::{Fingerprint, Trace};
use super::{Auditor, Case, Chaos, Subject, panics};
use crate::clock::Clock;
use crate::landscape::{Damage, Happening, Landscape, LandscapeError, What};
use crate::resource::DEPLOYMENTS;
use crate::selection::Selection;

/// Everything has to be as before by then.
const QUIET: Duration = Duration::from_mins(8);

/// Some day.
const DAY: Time = Time::from_unix(1_700_000_000, 0);

/// What came of a run.
#[derive(Debug, PartialEq)]
pub struct Outcome<F> {
    /// The last lines of the trace.
    pub trace: Vec<String>,
    /// How many there were.
    pub lines: usize,
    /// Of all of them.
    pub digest: u64,
    /// A hash of every request, every change in the landscape and the Deployments at the end. It does
    /// not depend on how anything is worded.
    pub fingerprint: u64,
    /// What must not be so, in the order it was found.
    pub wrong: Vec<String>,
    /// How much there was to look at.
    pub figures: F,
    /// What was broken.
    pub damage: Damage,
}

/// Why chaos cannot be played on this machine.
#[derive(Debug, thiserror::Error)]
pub enum ChaosError {
    /// Time cannot be paused.
    #[error("cannot start a runtime: {0}")]
    Runtime(#[from] io::Error),
    /// There is nothing to play it in.
    #[error(transparent)]
    Landscape(#[from] LandscapeError),
}

pub(super) type Figures<S> = <<S as Subject>::Auditor as Auditor>::Figures;

impl Chaos {
    /// Lets replicas of `S` watch over it, in virtual time and on this thread.
    pub fn endure<S: Subject>(&self) -> Result<Outcome<Figures<S>>, ChaosError> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        runtime.block_on(play::<S>(self))
    }
}

async fn play<S: Subject>(chaos: &Chaos) -> Result<Outcome<Figures<S>>, ChaosError> {
    fastrand::seed(chaos.plan.seed);
    panics::take();
    let landscape = Landscape::inside(&chaos.plan, &Clock::starting_at(DAY))?;
    let mut rng = Rng::with_seed(chaos.plan.seed);
    landscape.shuffle(rng.fork());
    let trace = Arc::new(Mutex::new(Trace::new()));
    let fingerprint = Arc::new(Mutex::new(Fingerprint::new()));
    let auditor = S::Auditor::new(Case::new(&landscape, chaos, S::LEASE));
    let auditor = Arc::new(Mutex::new(auditor));
    let called = Arc::new(Notify::new());
    landscape.observe({
        let (trace, auditor, called) = (trace.clone(), auditor.clone(), called.clone());
        let fingerprint = fingerprint.clone();
        move |happening: &Happening| {
            lock(&trace).add(happening.to_string());
            lock(&fingerprint).add(happening);
            lock(&auditor).see(happening);
            if !matches!(happening.what, What::Call { .. }) {
                called.notify_one();
            }
        }
    });
    let driving = landscape.clone();
    let driver = tokio::spawn(async move { driving.run().await });
    let mut crew = Crew::<S>::new(&landscape, chaos.watchdogs, rng);
    landscape.play(&chaos.scenario);
    let end = sleep(chaos.scenario.length + QUIET);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = called.notified() => crew.follow(&landscape),
            () = &mut end => break,
        }
    }
    lock(&auditor).close();
    let seed = landscape.seed();
    let deployments = seed.store().list(&DEPLOYMENTS, &Selection::all());
    for deployment in deployments.map_or_else(|_| Vec::new(), |(objects, _)| objects) {
        let metadata = &deployment["metadata"];
        lock(&fingerprint).line(&format!(
            "{} {} {} {} {}",
            metadata["namespace"],
            metadata["name"],
            metadata["resourceVersion"],
            metadata["annotations"],
            deployment["spec"]["replicas"],
        ));
    }
    let damage = landscape.damage();
    let leftovers = crew.leftovers(&landscape).await;
    let defects = crew.end().await;
    driver.abort();
    let is_driven = driver.await.is_err_and(|error| error.is_cancelled());
    // The observer holds the landscape through the auditor.
    landscape.observe(|_| {});
    let (trace, lines, digest) = lock(&trace).finish();
    let mut auditor = lock(&auditor);
    let mut wrong = std::mem::take(&mut auditor.case().wrong);
    let left = |what| format!("left of clusters that are gone: {what}");
    wrong.extend(leftovers.into_iter().map(left));
    wrong.extend(defects);
    wrong.extend(panics::take());
    if !is_driven {
        wrong.push("the landscape stands still: its driver has ended".to_owned());
    }
    Ok(Outcome {
        trace,
        lines,
        digest,
        fingerprint: lock(&fingerprint).finish(),
        wrong,
        figures: auditor.figures(),
        damage,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kelpie_config::scenario::{Fault, Incident, Scenario};

    use super::*;
    use crate::{Plan, Process};

    /// Nobody, looked at by somebody who panics when a fault begins: in the midst of the driver.
    struct Nobody;

    struct Clumsy(Case);

    impl Subject for Nobody {
        type Shows = ();
        type Auditor = Clumsy;
        const NAME: &'static str = "nobody";
        const LEASE: &'static str = "none";
        const PAUSE: Duration = Duration::MAX;

        fn fault(_: &Plan, _: &mut Rng) -> Fault {
            Fault::WatchDrop
        }

        fn start(_: &Landscape, _: &str, _: bool) -> Process<()> {
            unreachable!("nobody is to watch")
        }

        fn leftovers((): &()) -> Vec<String> {
            Vec::new()
        }
    }

    impl Auditor for Clumsy {
        type Figures = ();

        fn new(case: Case) -> Self {
            Self(case)
        }

        fn case(&mut self) -> &mut Case {
            &mut self.0
        }

        fn see(&mut self, happening: &Happening) {
            assert!(!matches!(happening.what, What::FaultBegan { .. }), "clumsy");
        }

        fn close(&mut self) {}

        fn figures(&self) {}
    }

    fn endure(incidents: Vec<Incident>) -> Vec<String> {
        let chaos = Chaos {
            plan: Plan::of(1, 2),
            scenario: Scenario {
                length: Duration::from_mins(1),
                incidents,
                ..Scenario::default()
            },
            watchdogs: 0,
        };
        chaos.endure::<Nobody>().unwrap().wrong
    }

    #[test]
    fn a_landscape_whose_driver_has_died_is_no_proof_of_anything() {
        assert_eq!(endure(Vec::new()), Vec::<String>::new());
        let fault = Incident::new(Duration::from_secs(30), None, Fault::WatchDrop);
        let wrong = endure(vec![fault]);
        let [panic, still] = &wrong[..] else {
            panic!("{wrong:?}");
        };
        assert!(panic.contains("clumsy"), "{panic}");
        assert!(still.contains("stands still"), "{still}");
        // Of the next run on this thread nothing is known yet.
        assert_eq!(endure(Vec::new()), Vec::<String>::new());
    }
}
