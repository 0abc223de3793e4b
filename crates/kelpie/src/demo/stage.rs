//! Where it is played: a simulated landscape in a time of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use kelpie_core::Time;
use kelpie_kube::WallClock;
use kelpie_sim::{Clock, Damage, Happening, Landscape, Row, What};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::plot::Plot;
use super::watchdog::Watchdog;

/// Time goes on by so much at once.
pub(super) const FRAME: Duration = Duration::from_millis(250);

/// What is not normal so long after the end of a scenario will not be.
const PATIENCE: Duration = Duration::from_hours(1);

/// Everybody is in their stride before something goes wrong: what has just started looks at the world
/// with other eyes for some minutes.
const WARM_UP: Duration = Duration::from_mins(6);

/// A story is over by then, counted from the end of its scenario.
const AFTERMATH: Duration = Duration::from_mins(15);

/// Every period of the watchdog's that is counted on the clock divides it.
const GRID: Duration = Duration::from_mins(5);

/// A landscape with what goes wrong in it, and who watches over it.
pub(super) struct Stage {
    /// Its time stands still but for the frames that are played.
    runtime: Runtime,
    landscape: Landscape,
    watchdog: Option<Watchdog>,
    happened: Arc<Mutex<Vec<Happening>>>,
    length: Duration,
    elapsed: Duration,
}

impl Stage {
    /// The prober and the weeder watch over it; it is `now` when the story is over.
    pub(super) fn watched(plot: &Plot, now: Time) -> Result<Self> {
        let mut stage = Self::unwatched(plot, now)?;
        {
            let _inside = stage.runtime.enter();
            stage.watchdog = Some(Watchdog::start(&stage.landscape)?);
        }
        let happened = Arc::clone(&stage.happened);
        stage.landscape.observe(move |happening: &Happening| {
            if !matches!(happening.what, What::Call { .. }) {
                let mut happened = happened.lock().unwrap_or_else(PoisonError::into_inner);
                happened.push(happening.clone());
            }
        });
        Ok(stage)
    }

    /// Nobody does.
    pub(super) fn unwatched(plot: &Plot, now: Time) -> Result<Self> {
        // The watchdog draws from the thread's dice.
        fastrand::seed(plot.plan.seed);
        kelpie_net::install_crypto();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .context("cannot start the runtime")?;
        let landscape = {
            let _inside = runtime.enter();
            let clock = Clock::starting_at(beginning(now, plot.scenario.length));
            Landscape::inside(&plot.plan, &clock)?
        };
        let driven = landscape.clone();
        runtime.spawn(async move { driven.run().await });
        Ok(Self {
            runtime,
            landscape,
            watchdog: None,
            happened: Arc::default(),
            length: plot.scenario.length,
            elapsed: Duration::ZERO,
        })
    }

    /// Begins with the scenario as soon as everybody is in their stride; false if somebody has seen
    /// enough before that.
    pub(super) fn begin(&mut self, plot: &Plot, enough: &CancellationToken) -> Result<bool> {
        let mut warm = Duration::ZERO;
        while warm < WARM_UP {
            if enough.is_cancelled() {
                return Ok(false);
            }
            self.go_on()?;
            warm += FRAME;
        }
        let _inside = self.runtime.enter();
        self.landscape.play(&plot.scenario);
        Ok(true)
    }

    /// Plays a frame.
    pub(super) fn play(&mut self) -> Result<()> {
        self.elapsed += FRAME;
        self.go_on()
    }

    fn go_on(&mut self) -> Result<()> {
        // The timer has to be made inside.
        self.runtime.block_on(async { sleep(FRAME).await });
        let _inside = self.runtime.enter();
        match &mut self.watchdog {
            Some(watchdog) => watchdog.follow_orders(),
            None => Ok(()),
        }
    }

    /// Time goes on until it is what the clock on the wall shows, or somebody has seen enough. It
    /// begins long enough before that for the story.
    pub(super) fn catch_up(&mut self, enough: &CancellationToken) -> Result<()> {
        let wall = WallClock::default();
        while self.landscape_time() < wall.now() && !enough.is_cancelled() {
            self.play()?;
        }
        Ok(())
    }

    fn landscape_time(&self) -> Time {
        // Outside, it would be counted by the wall.
        let _inside = self.runtime.enter();
        self.landscape.now()
    }

    /// From now on its time is real; lasts as long as `scene`.
    pub(super) fn live<T>(&self, scene: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            tokio::time::resume();
            scene.await
        })
    }

    pub(super) fn landscape(&self) -> &Landscape {
        &self.landscape
    }

    /// What the prober and the weeder have to show, if they are there.
    pub(super) fn pages(&self) -> (Option<Router>, Option<Router>) {
        self.watchdog.as_ref().map_or((None, None), |watchdog| {
            let (prober, weeder) = watchdog.pages();
            (prober, Some(weeder))
        })
    }

    /// Since the scenario began.
    pub(super) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// It was played to its end, and everything is as before if it ever will be.
    pub(super) fn is_over(&self) -> bool {
        self.elapsed >= self.length + PATIENCE || self.elapsed >= self.length && self.is_normal()
    }

    /// Something was wrong, and everything is as before.
    pub(super) fn is_normal(&self) -> bool {
        self.damage().seconds_to_normal.is_some()
    }

    /// The fleet as it is.
    pub(super) fn fleet(&self) -> Vec<Row> {
        let _inside = self.runtime.enter();
        self.landscape.fleet()
    }

    /// What happened since the last time.
    pub(super) fn take_happenings(&self) -> Vec<Happening> {
        let mut happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *happened)
    }

    /// What was broken so far.
    pub(super) fn damage(&self) -> Damage {
        // Outside, the time would be the wall's.
        let _inside = self.runtime.enter();
        self.landscape.damage()
    }
}

/// So long ago that a story with a scenario of this length is over by `now`: who looks around afterwards
/// finds objects as old as they are. On a full [`GRID`], so that what happens depends on the seed alone.
fn beginning(now: Time, length: Duration) -> Time {
    let latest = now.before(WARM_UP + length + AFTERMATH);
    let grid = i64::try_from(GRID.as_secs()).unwrap_or(i64::MAX);
    let second = latest.as_micros().div_euclid(1_000_000);
    Time::from_unix(second - second.rem_euclid(grid), 0)
}

#[cfg(test)]
mod tests {
    use kelpie_sim::Plan;
    use kelpie_sim::scenario::Scenario;

    use super::*;

    /// What is told of a story that is over by `now`, with the times since its beginning.
    fn told(now: Time) -> (Vec<String>, Damage) {
        let plot = Plot::new(Plan::of(3, 5), Scenario::built_in("flapping").unwrap()).unwrap();
        let mut stage = Stage::watched(&plot, now).unwrap();
        assert!(stage.begin(&plot, &CancellationToken::new()).unwrap());
        let mut told = Vec::new();
        while !stage.is_over() {
            stage.play().unwrap();
            for happening in stage.take_happenings() {
                told.push(format!("{:?} {:?}", stage.elapsed(), happening.what));
            }
        }
        (told, stage.damage())
    }

    #[test]
    fn the_same_seed_is_the_same_story_at_any_time_of_the_day() {
        let noon = Time::from_unix(1_800_000_000, 0);
        let story = told(noon);
        assert!(story.0.len() > 10, "{story:?}");
        for later in [Duration::from_millis(37_500), Duration::from_secs(1_234)] {
            assert_eq!(told(noon.after(later)), story, "{later:?} later");
        }
    }

    #[test]
    fn who_has_seen_enough_need_not_wait_for_the_beginning() {
        let plot = Plot::new(Plan::of(1, 1), Scenario::built_in("partition").unwrap()).unwrap();
        let mut stage = Stage::unwatched(&plot, Time::from_unix(1_800_000_000, 0)).unwrap();
        let enough = CancellationToken::new();
        enough.cancel();
        assert!(!stage.begin(&plot, &enough).unwrap());
    }
}
