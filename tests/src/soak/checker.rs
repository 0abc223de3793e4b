//! Holds the probers to what they promise, by what the API server has accepted and by how the nodes
//! really were; never by what the probers say.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::audit::{Left, Place, Stand, Write};
use super::witness::Witness;

/// Users whose names begin like this are probers.
pub(super) const PROBER: &str = "prober-";

/// A server that was stopped may have accepted what its log does not tell: for so long around it what
/// stood there before is not known.
const GAP: Duration = Duration::from_secs(5);

/// What is left of the states of all Deployments when writes are gone through.
#[derive(Default)]
pub(super) struct Checker {
    stands: BTreeMap<Place, Stand>,
    /// Who wrote the Lease last so that it has a holder.
    leader: Option<String>,
    /// What must not be so.
    wrong: Vec<String>,
    /// What the probers did: down, up.
    scaled: (usize, usize),
}

/// What came of the check.
#[derive(Debug, Default)]
pub struct Findings {
    /// What must not be so, in order.
    pub wrong: Vec<String>,
    /// How often something was scaled down.
    pub down: usize,
    /// How often something was scaled up.
    pub up: usize,
}

impl Checker {
    /// Goes through all writes; `gaps` are the times at which the seed's API server was stopped.
    pub(super) fn check(writes: &[Write], gaps: &[Timestamp], witness: &Witness) -> Findings {
        let mut checker = Self::default();
        let mut gaps = gaps.iter().peekable();
        let mut blind_until: Option<Timestamp> = None;
        for write in writes {
            while let Some(gap) = gaps.next_if(|gap| write.at.duration_since(**gap) >= -signed(GAP))
            {
                blind_until = Some(*gap + GAP);
            }
            if blind_until.is_some_and(|until| write.at < until) {
                checker.stands.clear();
                checker.leader = None;
            }
            checker.see(write, witness);
        }
        Findings {
            wrong: checker.wrong,
            down: checker.scaled.0,
            up: checker.scaled.1,
        }
    }

    fn see(&mut self, write: &Write, witness: &Witness) {
        let is_prober = write.user.starts_with(PROBER);
        match &write.left {
            Left::Unsure(place) => {
                if self.stands.remove(place).is_none() {
                    self.leader = None;
                }
            }
            Left::Lease(holder) => {
                self.leader = (!holder.is_empty()).then(|| write.user.clone());
            }
            Left::Whole(place, stand) => {
                let before = self.stands.insert(place.clone(), stand.clone());
                if let Some(before) = before.filter(|_| is_prober) {
                    self.leads(write);
                    self.annotated(write, place, &before, stand);
                }
            }
            Left::Scale(place, replicas) => {
                let before = self.stands.get(place).cloned();
                if is_prober {
                    self.leads(write);
                    self.scaled(write, place, before.as_ref(), *replicas, witness);
                }
                if let Some(stand) = self.stands.get_mut(place) {
                    stand.replicas = *replicas;
                }
            }
        }
    }

    /// Never two actors: who writes is who holds the Lease.
    fn leads(&mut self, write: &Write) {
        if let Some(leader) = self.leader.clone().filter(|leader| *leader != write.user) {
            self.complain(write, &format!("while {leader} leads"));
        }
    }

    /// A patch of the object itself.
    fn annotated(&mut self, write: &Write, place: &Place, before: &Stand, after: &Stand) {
        let at = format!("{}/{}", place.0, place.1);
        if after.replicas != before.replicas {
            self.complain(write, &format!("scales {at} by a patch of the object"));
        }
        if after.marked && after.recorded != Some(before.replicas.to_string()) {
            let text = format!(
                "records {:?} of {} replicas of {at}",
                after.recorded, before.replicas
            );
            self.complain(write, &text);
        }
        if before.marked && !after.marked && after.replicas == 0 {
            self.complain(
                write,
                &format!("drops the marker of {at}, which is still down"),
            );
        }
        if after.recorded.is_none() && before.recorded.is_some() {
            self.complain(write, &format!("drops the record of {at}"));
        }
    }

    /// A scale call.
    fn scaled(
        &mut self,
        write: &Write,
        place: &Place,
        before: Option<&Stand>,
        replicas: u64,
        witness: &Witness,
    ) {
        let at = format!("{}/{}", place.0, place.1);
        if replicas == 0 {
            self.scaled.0 += 1;
            if !witness.was_silent(&place.0, write.at) {
                self.complain(write, &format!("fences {at}, whose nodes are well"));
            }
        } else {
            self.scaled.1 += 1;
        }
        let Some(before) = before else { return };
        if !before.marked {
            self.complain(
                write,
                &format!("scales {at} to {replicas} without a marker"),
            );
        }
        let recorded = before
            .recorded
            .as_deref()
            .and_then(|text| text.parse().ok());
        let is_as_recorded = match replicas {
            0 => recorded == Some(before.replicas),
            _ => recorded == Some(replicas) && before.replicas == 0,
        };
        if !is_as_recorded {
            let text = format!("scales {at} from {before:?} to {replicas}");
            self.complain(write, &text);
        }
    }

    fn complain(&mut self, write: &Write, what: &str) {
        let Write {
            at, user, version, ..
        } = write;
        self.wrong
            .push(format!("{at} (version {version}): {user} {what}"));
    }
}

fn signed(time: Duration) -> k8s_openapi::jiff::SignedDuration {
    k8s_openapi::jiff::SignedDuration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::witness::Silence;
    use super::*;
    use crate::landscape::{Pace, Renewed};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap_or_default()
    }

    fn place() -> Place {
        ("a".to_owned(), "kcm".to_owned())
    }

    fn whole(replicas: u64, marked: bool, recorded: Option<&str>) -> Left {
        let recorded = recorded.map(str::to_owned);
        let stand = Stand {
            replicas,
            marked,
            recorded,
        };
        Left::Whole(place(), stand)
    }

    fn check(silent: bool, writes: &[(&str, Left)]) -> Vec<String> {
        // Renewed once, long before; or not known at all.
        let long_ago = Instant::now();
        let silence = Silence {
            renewals: vec![vec![Renewed {
                at: long_ago,
                is_dated_well: true,
            }]],
            outages: Vec::new(),
        };
        let witness = Witness {
            pace: Pace::QUICK,
            anchor: (at(-60), long_ago),
            clusters: silent
                .then(|| ("a".to_owned(), silence))
                .into_iter()
                .collect(),
        };
        let writes: Vec<Write> = (0i64..)
            .zip(writes)
            .map(|(number, (user, left))| Write {
                version: u64::try_from(number).unwrap_or_default(),
                at: at(number),
                user: (*user).to_owned(),
                left: left.clone(),
            })
            .collect();
        let found = Checker::check(&writes, &[], &witness);
        found.wrong
    }

    #[test]
    fn a_fence_and_its_restore_are_right() {
        let story = [
            ("admin", whole(3, false, None)),
            ("prober-0", Left::Lease("x".into())),
            ("prober-0", whole(3, true, Some("3"))),
            ("prober-0", Left::Scale(place(), 0)),
            ("prober-0", Left::Lease(String::new())),
            ("prober-1", Left::Lease("y".into())),
            ("prober-1", Left::Scale(place(), 3)),
            ("prober-1", whole(3, false, Some("3"))),
        ];
        assert_eq!(check(true, &story), Vec::<String>::new());
    }

    #[test]
    fn whatever_is_wrong_is_found() {
        let fenced = whole(0, true, Some("3"));
        let cases = [
            (
                true,
                vec![
                    ("admin", whole(3, false, None)),
                    ("prober-0", Left::Scale(place(), 0)),
                ],
                "without a marker",
            ),
            (
                false,
                vec![("prober-0", Left::Scale(place(), 0))],
                "whose nodes are well",
            ),
            (
                true,
                vec![
                    ("admin", fenced.clone()),
                    ("prober-0", Left::Scale(place(), 2)),
                ],
                "to 2",
            ),
            (
                true,
                vec![
                    ("admin", whole(3, false, None)),
                    ("prober-0", whole(3, true, Some("2"))),
                ],
                "records",
            ),
            (
                true,
                vec![
                    ("admin", fenced.clone()),
                    ("prober-0", whole(0, false, Some("3"))),
                ],
                "still down",
            ),
            (
                true,
                vec![
                    ("prober-1", Left::Lease("y".into())),
                    ("admin", fenced.clone()),
                    ("prober-0", Left::Scale(place(), 3)),
                ],
                "while prober-1 leads",
            ),
            (
                true,
                vec![
                    ("admin", fenced.clone()),
                    ("prober-0", whole(3, true, Some("3"))),
                ],
                "by a patch",
            ),
            (
                true,
                vec![
                    ("admin", whole(5, true, Some("3"))),
                    ("prober-0", Left::Scale(place(), 3)),
                ],
                "from",
            ),
        ];
        for (silent, story, words) in cases {
            let wrong = check(silent, &story).join("\n");
            assert!(wrong.contains(words), "{words}: {wrong:?}");
        }
    }
}
