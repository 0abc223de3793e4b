//! A single chaos run.

use std::io;
use std::sync::Arc;

use fastrand::Rng;
use kelpie_core::Time;
use kelpie_sim::resource::DEPLOYMENTS;
use kelpie_sim::{
    Damage, Landscape, LandscapeError, ObjectSelector, SimClock, SimEvent, SimEventKind,
};
use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::replicas::Replicas;
use crate::trace::{Fingerprint, Trace};
use crate::{AuditContext, Auditor, ChaosRun, Subject, panics};

/// The landscape's time at the start; any time will do.
const START_TIME: Time = Time::from_unix(1_700_000_000, 0);

/// The result of a run.
#[derive(Debug, PartialEq)]
pub struct ChaosOutcome<F> {
    /// The last lines of the trace.
    pub trace: Vec<String>,
    /// The number of lines of the whole trace.
    pub lines: usize,
    /// A hash of the whole trace.
    pub digest: u64,
    /// A hash of every request, every change in the landscape and the Deployments at the end. It
    /// does not depend on the wording of events.
    pub fingerprint: u64,
    /// The violated invariants, in the order in which they were found.
    pub violations: Vec<String>,
    /// The counters of the auditor.
    pub counts: F,
    /// The damage to the landscape.
    pub damage: Damage,
}

/// The reasons why a run cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ChaosError {
    /// The runtime with virtual time cannot be built.
    #[error("cannot start a runtime: {0}")]
    Runtime(#[from] io::Error),
    /// The landscape cannot be created.
    #[error(transparent)]
    Landscape(#[from] LandscapeError),
}

pub(crate) type Counts<S> = <<S as Subject>::Auditor as Auditor>::Counts;

impl ChaosRun {
    /// Runs replicas of `S` in the landscape, in virtual time and on this thread.
    pub fn run<S: Subject>(&self) -> Result<ChaosOutcome<Counts<S>>, ChaosError> {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        runtime.block_on(run_chaos::<S>(self))
    }
}

async fn run_chaos<S: Subject>(chaos: &ChaosRun) -> Result<ChaosOutcome<Counts<S>>, ChaosError> {
    fastrand::seed(chaos.plan.rng_seed);
    panics::take();
    let landscape = Landscape::in_process(&chaos.plan, &SimClock::starting_at(START_TIME))?;
    let mut rng = Rng::with_seed(chaos.plan.rng_seed);
    landscape.shuffle_connections(rng.fork());
    let recorder = Arc::new(Mutex::new((Trace::new(), Fingerprint::new())));
    let auditor = S::Auditor::new(AuditContext::new(&landscape, chaos, S::LEASE));
    let auditor = Arc::new(Mutex::new(auditor));
    let commands_pending = Arc::new(Notify::new());
    landscape.observe({
        let (recorder, auditor) = (recorder.clone(), auditor.clone());
        let commands_pending = commands_pending.clone();
        move |event: &SimEvent| {
            let (trace, fingerprint) = &mut *recorder.lock();
            trace.add(event.to_string());
            fingerprint.add(event);
            auditor.lock().observe(event);
            if !matches!(event.kind, SimEventKind::Request { .. }) {
                commands_pending.notify_one();
            }
        }
    });
    let driven = landscape.clone();
    let driver = tokio::spawn(async move { driven.run().await });
    let mut replicas = Replicas::<S>::new(&landscape, chaos.watchdogs, rng);
    landscape.play(&chaos.scenario);
    let end = sleep(chaos.scenario.length + S::RECOVERY_TIME);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = commands_pending.notified() => replicas.execute_commands(&landscape),
            () = &mut end => break,
        }
    }
    auditor.lock().finish();
    let seed = landscape.seed();
    let deployments = seed.store().list(&DEPLOYMENTS, &ObjectSelector::all());
    for deployment in deployments.map_or_else(|_| Vec::new(), |(objects, _)| objects) {
        let metadata = &deployment["metadata"];
        recorder.lock().1.add_line(&format!(
            "{} {} {} {} {}",
            metadata["namespace"],
            metadata["name"],
            metadata["resourceVersion"],
            metadata["annotations"],
            deployment["spec"]["replicas"],
        ));
    }
    let damage = landscape.damage();
    let leftovers = replicas.leftovers(&landscape).await;
    let defects = replicas.stop().await;
    driver.abort();
    let was_running = driver.await.is_err_and(|error| error.is_cancelled());
    // Breaks a cycle: the observer holds the landscape through the auditor.
    landscape.observe(|_| {});
    let (trace, fingerprint) = &mut *recorder.lock();
    let (trace, lines, digest) = trace.finish();
    let mut auditor = auditor.lock();
    let mut violations = std::mem::take(&mut auditor.context().violations);
    let leftover = |item| format!("not cleaned up after its cluster was deleted: {item}");
    violations.extend(leftovers.into_iter().map(leftover));
    violations.extend(defects);
    violations.extend(panics::take());
    if !was_running {
        violations.push("the landscape's driver has stopped".to_owned());
    }
    Ok(ChaosOutcome {
        trace,
        lines,
        digest,
        fingerprint: fingerprint.finish(),
        violations,
        counts: auditor.counts(),
        damage,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelpie_sim::scenario::{Fault, Incident, Scenario};
    use kelpie_sim::{LandscapePlan, SimProcess};

    use super::*;

    /// No replicas, with an auditor that panics when a fault begins, inside of the driver.
    struct NoSubject;

    struct PanickingAuditor(AuditContext);

    impl Subject for NoSubject {
        type Exposed = ();
        type Auditor = PanickingAuditor;
        const NAME: &'static str = "nobody";
        const LEASE: &'static str = "none";
        const FAULT_INTERVAL: Duration = Duration::MAX;

        fn random_fault(_: &mut Rng) -> Fault {
            Fault::WatchDrop
        }

        fn start(_: &Landscape, _: &str, _: bool) -> SimProcess<()> {
            unreachable!("nobody is to watch")
        }

        fn leftovers((): &()) -> Vec<String> {
            Vec::new()
        }
    }

    impl Auditor for PanickingAuditor {
        type Counts = ();

        fn new(context: AuditContext) -> Self {
            Self(context)
        }

        fn context(&mut self) -> &mut AuditContext {
            &mut self.0
        }

        fn observe(&mut self, event: &SimEvent) {
            assert!(
                !matches!(event.kind, SimEventKind::FaultBegan { .. }),
                "auditor panicked"
            );
        }

        fn finish(&mut self) {}

        fn counts(&self) {}
    }

    fn run_with(incidents: Vec<Incident>) -> Vec<String> {
        let chaos = ChaosRun {
            plan: LandscapePlan::with_size(1, 2),
            scenario: Scenario {
                length: Duration::from_mins(1),
                incidents,
                ..Scenario::default()
            },
            watchdogs: 0,
        };
        chaos.run::<NoSubject>().unwrap().violations
    }

    #[test]
    fn dead_driver_is_a_violation() {
        assert_eq!(run_with(Vec::new()), Vec::<String>::new());
        let fault = Incident::new(Duration::from_secs(30), None, Fault::WatchDrop);
        let violations = run_with(vec![fault]);
        let [panic, stopped] = &violations[..] else {
            panic!("{violations:?}");
        };
        assert!(panic.contains("auditor panicked"), "{panic}");
        assert!(stopped.contains("driver has stopped"), "{stopped}");
        // The next run on this thread does not see the panic.
        assert_eq!(run_with(Vec::new()), Vec::<String>::new());
    }
}
