//! Chaos: landscapes and what goes wrong in them by the roll of dice, for tests of who watches over them.
//!
//! Reading order: everything of a [`Chaos`] follows from its seed. A [`Subject`] has to endure it:
//! [`Chaos::endure`] plays it in virtual time with a crew of the subject's replicas, and an [`Auditor`]
//! holds them to what they promise, with what it knows of the [`Case`]. A [`Search`] does so for many seeds;
//! one that fails is told with the faults that it needs and the command that replays it.
//!
//! The seed decides on the landscape, the faults, how long each request is under way, every jitter, and which
//! of the connections that are ready at the same instant goes first. It does not decide on the order of tasks
//! of a replica that wait for nothing outside it: those go as the runtime has them.

mod case;
mod crew;
mod endurance;
mod panics;
mod search;
mod story;
mod trace;

use std::fmt::Debug;
use std::time::Duration;

use fastrand::Rng;
use kelpie_config::scenario::{Clusters, Fault, Incident, Scenario};

pub use case::Case;
pub use endurance::{ChaosError, Outcome};
pub use search::Search;

use crate::{Happening, Landscape, Plan, Process};

/// Nothing goes wrong in the beginning, so that everybody is in their stride.
const START: Duration = Duration::from_mins(2);

/// Who is put to the test.
pub trait Subject {
    /// What a replica shows of itself.
    type Shows;
    /// Who looks at what it does.
    type Auditor: Auditor;
    /// Its name on the command line.
    const NAME: &'static str;
    /// The Lease in `garden` by which replicas agree on the one that acts.
    const LEASE: &'static str;
    /// On the average something goes wrong so often.
    const PAUSE: Duration;

    /// Something that goes wrong.
    fn fault(plan: &Plan, rng: &mut Rng) -> Fault;

    /// Starts a replica that takes part in an election, or is alone.
    fn start(landscape: &Landscape, name: &str, elected: bool) -> Process<Self::Shows>;

    /// What it still keeps of clusters that are gone for a while; it should be nothing.
    fn leftovers(shows: &Self::Shows) -> Vec<String>;
}

/// Holds replicas to what their kind promises: by what the seed's API server has and by how the landscape
/// really is, never by what they say.
pub trait Auditor: Send + 'static {
    /// How much there was to look at: or a test might look at nothing.
    type Figures: Debug + PartialEq + Send;

    /// Looks into it from the beginning.
    fn new(case: Case) -> Self;

    /// What it knows, and what it has found.
    fn case(&mut self) -> &mut Case;

    /// Something has happened.
    fn see(&mut self, happening: &Happening);

    /// Faults are over for long.
    fn close(&mut self);

    /// How much it has seen.
    fn figures(&self) -> Self::Figures;
}

/// A landscape, what goes wrong in it, and how it is watched.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// The landscape.
    pub plan: Plan,
    /// What goes wrong in it, from the beginning on.
    pub scenario: Scenario,
    /// How many replicas watch over it; of several one acts.
    pub watchdogs: usize,
}

impl Chaos {
    /// Everything follows from the seed. Faults go on for `length`.
    pub fn new<S: Subject>(seed: u64, length: Duration) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan {
            seed,
            clusters: rng.usize(1..=3),
            nodes: rng.usize(2..=7),
            replicas: [rng.u32(1..=2), rng.u32(1..=2), rng.u32(0..=2)],
            ..Plan::default()
        };
        let share = length.as_secs_f64() / S::PAUSE.as_secs_f64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few"
        )]
        let count = (share * (0.5 + rng.f64())).ceil() as usize;
        let incidents = (0..count).map(|_| incident::<S>(&plan, length, &mut rng));
        Self {
            scenario: Scenario {
                name: format!("seed {seed}"),
                length: START + length,
                incidents: incidents.collect(),
                ..Scenario::default()
            },
            // Two of them cost as much as three alone: they look at their Lease all the time.
            watchdogs: if rng.u8(0..3) == 0 { 2 } else { 1 },
            plan,
        }
    }
}

fn incident<S: Subject>(plan: &Plan, length: Duration, rng: &mut Rng) -> Incident {
    let at = START + length.mul_f64(rng.f64());
    let lasts = Duration::from_secs(*rng.choice(&[5, 20, 45, 60, 90, 180, 300]).unwrap_or(&60));
    // Faults are over before the run is.
    let lasts = lasts.min((START + length).saturating_sub(at));
    let clusters = match rng.u8(0..3) {
        0 => Clusters::All,
        _ => Clusters::Numbers(vec![rng.usize(0..plan.clusters)]),
    };
    Incident::new(at, Some(lasts), S::fault(plan, rng)).of(clusters)
}
