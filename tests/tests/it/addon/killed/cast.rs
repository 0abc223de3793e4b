//! The operator and the status controller, one of whom is to die.

use std::fmt;
use std::time::Duration;

use kelpie_e2e::landscape::{Asked, Doorman, Ruling};
use kelpie_e2e::{Kelpie, poll};
use tokio::time::Instant;

use super::Ending;
use super::theatre::Theatre;
use crate::addon::stage::{PATIENCE, trues};

/// Nothing happens any more.
const SETTLED: Duration = Duration::from_secs(1);

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Operator,
    Status,
}

/// Where a write is when its writer dies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Unsent,
    Unheard,
}

/// How somebody dies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    pub(super) who: Who,
    /// At which of its writes.
    pub(super) at: usize,
    pub(super) fate: Fate,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, at, fate } = self;
        write!(f, "{who:?} at write {at}, {fate:?}")
    }
}

/// Who is on stage, and who is to die.
pub(super) struct Cast<'a> {
    theatre: &'a Theatre<'a>,
    operator: Option<Kelpie>,
    status: Option<Kelpie>,
    death: Option<(Death, Doorman)>,
    pub(super) died: bool,
}

impl<'a> Cast<'a> {
    pub(super) async fn new(theatre: &'a Theatre<'a>, death: Option<Death>) -> Self {
        let door = match death {
            None => None,
            Some(death) => {
                let door = Doorman::start(&theatre.spoke.api).await.unwrap();
                let mut writes = 0;
                door.rule(move |asked| {
                    writes += usize::from(is_write(asked));
                    match death.fate {
                        _ if writes != death.at || !is_write(asked) => Ruling::Pass,
                        Fate::Unsent => Ruling::Hold,
                        Fate::Unheard => Ruling::HoldAnswer,
                    }
                });
                Some((death, door))
            }
        };
        let way = |who| door.as_ref().filter(|(death, _)| death.who == who);
        let way = |who| way(who).map(|(_, door)| door);
        Self {
            status: Some(theatre.enter(Who::Status, way(Who::Status)).await),
            operator: Some(theatre.enter(Who::Operator, way(Who::Operator)).await),
            theatre,
            death: door,
            died: false,
        }
    }

    /// Kills whose time has come, and starts them again.
    async fn tend(&mut self) {
        let is_due = |(_, door): &mut (Death, Doorman)| !door.held().is_empty();
        let Some((death, door)) = self.death.take_if(is_due) else {
            return;
        };
        let actor = match death.who {
            Who::Operator => &mut self.operator,
            Who::Status => &mut self.status,
        };
        actor.take().unwrap().kill();
        // With it goes what was held.
        drop(door);
        *actor = Some(self.theatre.enter(death.who, None).await);
        self.died = true;
    }

    pub(super) async fn until(&mut self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let found = poll::until(what, PATIENCE, async || {
            self.tend().await;
            Ok(is_so().await.then_some(()))
        });
        if let Err(error) = found.await {
            panic!("{error:#}; the last was {:#}", self.theatre.scene().await);
        }
    }

    /// Waits for what comes out of an act: what it was in the play that nobody died in, else
    /// whatever it is when nothing happens any more.
    pub(super) async fn act(
        &mut self,
        ending: &mut Ending,
        model: Option<&Ending>,
        standing: &str,
    ) {
        let theatre = self.theatre;
        self.until(standing, async || {
            trues(&theatre.addon().await) == [standing]
        })
        .await;
        let mut scene = theatre.scene().await;
        if let Some(model) = model {
            let wanted = &model.scenes[ending.scenes.len()];
            self.until("the same scene", async || {
                scene = theatre.scene().await;
                scene == *wanted
            })
            .await;
        } else {
            let mut since = Instant::now();
            self.until("nothing to happen", async || {
                let now = theatre.scene().await;
                if now != scene {
                    (scene, since) = (now, Instant::now());
                }
                since.elapsed() >= SETTLED
            })
            .await;
        }
        ending.scenes.push(scene);
    }
}

fn is_write(asked: &Asked) -> bool {
    asked.method != "GET" && !asked.path.contains("/events")
}
