//! A simulated landscape with a scenario, in virtual time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use kelpie_core::Time;
use kelpie_kube::SystemClock;
use kelpie_sim::{ClusterSnapshot, Damage, Landscape, SimClock, SimEvent, SimEventKind};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::leadership;
use super::setup::DemoSetup;
use super::watchdog::{ReplicaChange, Watchdog};

/// The virtual time of one step.
pub(super) const FRAME: Duration = Duration::from_millis(250);

/// The limit for recovery after the end of the scenario. What is not back to normal by then never
/// will be.
const RECOVERY_LIMIT: Duration = Duration::from_hours(1);

/// The virtual time before the scenario starts. A prober that has just started judges leases
/// differently for some minutes.
const WARM_UP: Duration = Duration::from_mins(6);

/// The virtual time that is reserved for recovery between the end of the scenario and the present.
const AFTERMATH: Duration = Duration::from_mins(15);

/// The start of virtual time is a multiple of this. Every period of the prober and the weeder that
/// is aligned to the clock divides it.
const START_ALIGNMENT: Duration = Duration::from_mins(5);

/// A simulated landscape, with or without the watchdog.
pub(super) struct Simulation {
    /// Its time is paused and advances only by the frames that are stepped.
    runtime: Runtime,
    pub(super) landscape: Landscape,
    pub(super) watchdog: Option<Watchdog>,
    events: Receiver<SimEvent>,
    /// Notified when a fault may have a command for the watchdog.
    commands_pending: Arc<Notify>,
    length: Duration,
    /// The virtual time since the start of the scenario.
    pub(super) elapsed: Duration,
}

impl Simulation {
    /// Creates a simulation with the prober and the weeder. `now` is the virtual time at which
    /// recovery is expected to be over.
    pub(super) fn with_watchdog(setup: &DemoSetup, now: Time) -> Result<Self> {
        let mut simulation = Self::without_watchdog(setup, now)?;
        {
            let _guard = simulation.runtime.enter();
            let replicas = setup.replicas.into();
            let watchdog = Watchdog::start(&simulation.landscape, replicas, setup.protection)?;
            simulation.watchdog = Some(watchdog);
        }
        let (sender, events) = channel();
        simulation.events = events;
        let commands_pending = Arc::clone(&simulation.commands_pending);
        simulation.landscape.observe(move |event: &SimEvent| {
            let is_request = matches!(event.kind, SimEventKind::Request { .. });
            if !is_request || leadership::is_relevant(event) {
                // Fails only if the simulation has ended and dropped the receiver.
                let _ = sender.send(event.clone());
            }
            if !is_request {
                commands_pending.notify_one();
            }
        });
        Ok(simulation)
    }

    /// Creates a simulation without the prober and the weeder. It records no events.
    pub(super) fn without_watchdog(setup: &DemoSetup, now: Time) -> Result<Self> {
        // The prober and the weeder use the generator of the thread.
        fastrand::seed(setup.plan.rng_seed);
        kelpie_net::install_crypto();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .context("cannot start the runtime")?;
        let landscape = {
            let _guard = runtime.enter();
            let clock = SimClock::starting_at(start_time(now, setup.scenario.length));
            Landscape::in_process(&setup.plan, &clock)?
        };
        let task = landscape.clone();
        runtime.spawn(async move { task.run().await });
        Ok(Self {
            runtime,
            landscape,
            watchdog: None,
            events: channel().1,
            commands_pending: Arc::default(),
            length: setup.scenario.length,
            elapsed: Duration::ZERO,
        })
    }

    /// Warms up and then starts the scenario. Returns false if `interrupt` was cancelled before.
    pub(super) fn start_scenario(
        &mut self,
        setup: &DemoSetup,
        interrupt: &CancellationToken,
    ) -> Result<bool> {
        let mut warm_up = Duration::ZERO;
        while warm_up < WARM_UP {
            if interrupt.is_cancelled() {
                return Ok(false);
            }
            self.advance()?;
            warm_up += FRAME;
        }
        let _guard = self.runtime.enter();
        self.landscape.play(&setup.scenario);
        Ok(true)
    }

    /// Runs one frame of the scenario.
    pub(super) fn step(&mut self) -> Result<()> {
        self.elapsed += FRAME;
        self.advance()
    }

    fn advance(&mut self) -> Result<()> {
        let (watchdog, commands_pending) = (&mut self.watchdog, &self.commands_pending);
        self.runtime.block_on(async {
            let frame = sleep(FRAME);
            tokio::pin!(frame);
            loop {
                // A fault hits the watchdog at its own instant, not at the end of the frame.
                tokio::select! {
                    biased;
                    () = commands_pending.notified() => {
                        watchdog.as_mut().map_or(Ok(()), Watchdog::apply_commands)?;
                    }
                    () = &mut frame => return Ok(()),
                }
            }
        })
    }

    /// Runs until virtual time reaches the system clock, or until `interrupt` is cancelled. Virtual
    /// time starts long enough in the past for the scenario.
    pub(super) fn catch_up(&mut self, interrupt: &CancellationToken) -> Result<()> {
        let system_clock = SystemClock::default();
        while self.virtual_time() < system_clock.now() && !interrupt.is_cancelled() {
            self.step()?;
        }
        Ok(())
    }

    fn virtual_time(&self) -> Time {
        // Outside of the runtime, time would be real.
        let _guard = self.runtime.enter();
        self.landscape.now()
    }

    /// Switches to real time and runs until `future` ends.
    pub(super) fn run_in_real_time<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            tokio::time::resume();
            future.await
        })
    }

    /// Returns true if the scenario is over and everything is back to normal, or will never be.
    pub(super) fn is_finished(&self) -> bool {
        self.elapsed >= self.length + RECOVERY_LIMIT
            || self.elapsed >= self.length && self.is_back_to_normal()
    }

    /// Returns true if something was wrong and everything is back to normal.
    pub(super) fn is_back_to_normal(&self) -> bool {
        self.damage().seconds_to_normal.is_some()
    }

    /// Returns the current state of all clusters.
    pub(super) fn clusters(&self) -> Vec<ClusterSnapshot> {
        let _guard = self.runtime.enter();
        self.landscape.snapshot()
    }

    /// Takes the events since the last call.
    pub(super) fn take_events(&self) -> Vec<SimEvent> {
        self.events.try_iter().collect()
    }

    /// Takes the changes of the prober's replicas since the last call.
    pub(super) fn take_replica_changes(&mut self) -> Vec<ReplicaChange> {
        let watchdog = self.watchdog.as_mut();
        watchdog.map(Watchdog::take_changes).unwrap_or_default()
    }

    /// Returns the damage so far.
    pub(super) fn damage(&self) -> Damage {
        // Outside of the runtime, time would be real.
        let _guard = self.runtime.enter();
        self.landscape.damage()
    }
}

/// Returns the start of virtual time: early enough that a scenario of this length, with warm-up and
/// recovery, is over by `now`. With `--keep`, objects then have plausible ages. The start is
/// aligned to [`START_ALIGNMENT`], so that a run depends only on the random seed.
fn start_time(now: Time, length: Duration) -> Time {
    let latest = now.before(WARM_UP + length + AFTERMATH);
    let alignment = i64::try_from(START_ALIGNMENT.as_secs()).unwrap_or(i64::MAX);
    let second = latest.as_micros().div_euclid(1_000_000);
    Time::from_unix(second - second.rem_euclid(alignment), 0)
}

#[cfg(test)]
mod tests {
    use kelpie_sim::LandscapePlan;
    use kelpie_sim::scenario::Scenario;

    use super::super::watchdog::Protection;
    use super::*;

    /// Runs a scenario that is over by `now`. Returns its events, with the time since its start,
    /// and its damage.
    fn run(scenario: &str, now: Time) -> (Vec<String>, Damage) {
        let setup = DemoSetup::new(
            LandscapePlan::with_size(3, 5),
            Scenario::built_in(scenario).unwrap(),
            None,
            Protection::Fence,
        )
        .unwrap();
        let mut simulation = Simulation::with_watchdog(&setup, now).unwrap();
        assert!(
            simulation
                .start_scenario(&setup, &CancellationToken::new())
                .unwrap()
        );
        let mut events = Vec::new();
        while !simulation.is_finished() {
            simulation.step().unwrap();
            for event in simulation.take_events() {
                events.push(format!("{:?} {}", simulation.elapsed, event.kind));
            }
        }
        (events, simulation.damage())
    }

    #[test]
    fn run_does_not_depend_on_time_of_day() {
        let noon = Time::from_unix(1_800_000_000, 0);
        let delays = [Duration::from_millis(37_500), Duration::from_secs(1_234)];
        for (scenario, delays) in [("flapping", &delays[..]), ("failover", &delays[1..])] {
            let expected = run(scenario, noon);
            assert!(expected.0.len() > 10, "{expected:?}");
            for later in delays {
                let again = run(scenario, noon.after(*later));
                assert_eq!(again, expected, "{scenario} {later:?} later");
            }
        }
    }

    #[test]
    fn interrupt_ends_the_warm_up() {
        let setup = DemoSetup::new(
            LandscapePlan::with_size(1, 1),
            Scenario::built_in("partition").unwrap(),
            None,
            Protection::Fence,
        )
        .unwrap();
        let now = Time::from_unix(1_800_000_000, 0);
        let mut simulation = Simulation::without_watchdog(&setup, now).unwrap();
        let interrupt = CancellationToken::new();
        interrupt.cancel();
        assert!(!simulation.start_scenario(&setup, &interrupt).unwrap());
    }
}
