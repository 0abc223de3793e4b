//! The replicas of the prober: which of them run, which one leads, and which one fenced.
//!
//! All of it is read from the simulation: the changes that it made to the processes, and the
//! requests that its seed answered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kelpie_core::Time;
use kelpie_sim::{LandscapePlan, SimEvent, SimEventKind};

use super::watchdog::{ReplicaChange, ReplicaState, short_name};
use crate::prober::LEASE;

/// Follows the replicas of the prober.
#[derive(Debug, Default)]
pub(super) struct Leadership {
    /// The replicas that run, and the crashed ones that are not replaced yet.
    replicas: BTreeMap<Arc<str>, ReplicaState>,
    /// The holder of the Lease. A leader that crashed holds it until it expires.
    leader: Option<Arc<str>>,
    /// The instant at which the leader crashed or was paused.
    leader_lost: Option<(Time, ReplicaState)>,
    /// The last replica that wrote to a cluster's kube-controller-manager, and its role then.
    writers: BTreeMap<String, ReplicaName>,
}

/// A replica with its role, such as `standby prober-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplicaName {
    replica: Arc<str>,
    /// `None` if there is no election.
    role: Option<ElectedRole>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElectedRole {
    Leader,
    Standby,
}

/// Returns whether an event shows which replica leads or fences.
pub(super) fn is_relevant(event: &SimEvent) -> bool {
    SeedWrite::of(event).is_some()
}

/// A write of the prober to the seed.
enum SeedWrite<'a> {
    Lease { user: &'a str },
    Manager { user: &'a str, cluster: &'a str },
}

impl<'a> SeedWrite<'a> {
    /// Returns the write behind an event, if it succeeded.
    fn of(event: &'a SimEvent) -> Option<Self> {
        let SimEventKind::Request {
            server,
            user,
            verb: "update" | "patch",
            path,
            status: 200,
            ..
        } = &event.kind
        else {
            return None;
        };
        let segments: Vec<&str> = path.split('/').collect();
        match *segments.as_slice() {
            _ if &**server != "seed" => None,
            [.., "leases", LEASE] => Some(Self::Lease { user }),
            [.., cluster, "deployments", MANAGER]
            | [.., cluster, "deployments", MANAGER, "scale"] => {
                Some(Self::Manager { user, cluster })
            }
            _ => None,
        }
    }
}

const MANAGER: &str = LandscapePlan::CONTROLLERS[0];

/// A replica with its new state, and its role before.
pub(super) type ChangedReplica = (ReplicaState, ReplicaName);

impl Leadership {
    /// Takes in the events and the changes of a frame. Returns the replicas that changed, and a
    /// description of each change of the leader.
    pub(super) fn update(
        &mut self,
        events: &[SimEvent],
        changes: &[ReplicaChange],
    ) -> (Vec<ChangedReplica>, Vec<String>) {
        let (mut changed, mut leaders) = (Vec::new(), Vec::new());
        let mut changes = changes.iter().peekable();
        for event in events {
            while let Some(change) = changes.next_if(|change| change.at <= event.at) {
                changed.push(self.on_change(change));
            }
            leaders.extend(self.on_event(event));
        }
        changed.extend(changes.map(|change| self.on_change(change)));
        (changed, leaders)
    }

    /// Takes in a change that the simulation made to a replica.
    fn on_change(&mut self, change: &ReplicaChange) -> ChangedReplica {
        let ReplicaChange { at, replica, state } = change;
        let before = self.name(replica);
        let is_leader = self.leader.as_ref() == Some(replica);
        match state {
            ReplicaState::Started => {
                let mut replicas = self.replicas.iter();
                let crashed = replicas.find(|(_, state)| **state == ReplicaState::Crashed);
                if let Some(crashed) = crashed.map(|(name, _)| Arc::clone(name)) {
                    self.replicas.remove(&crashed);
                }
            }
            ReplicaState::Crashed | ReplicaState::Paused if is_leader => {
                self.leader_lost = Some((*at, *state));
            }
            ReplicaState::Resumed if is_leader => self.leader_lost = None,
            _ => {}
        }
        self.replicas.insert(Arc::clone(replica), *state);
        (*state, before)
    }

    /// Takes in a request to the seed. Returns a description if another replica leads from then on.
    fn on_event(&mut self, event: &SimEvent) -> Option<String> {
        match SeedWrite::of(event)? {
            SeedWrite::Lease { user } => self.on_lease_written(short_name(user), event.at),
            SeedWrite::Manager { user, cluster } => {
                let writer = self.name(short_name(user));
                self.writers.insert(cluster.to_owned(), writer);
                None
            }
        }
    }

    fn on_lease_written(&mut self, writer: &str, at: Time) -> Option<String> {
        if self.leader.as_deref() == Some(writer) {
            return None;
        }
        let before = self.leader.replace(writer.into())?;
        Some(match self.leader_lost.take() {
            Some((since, state)) => {
                let lost = match state {
                    ReplicaState::Paused => "was paused",
                    _ => "crashed",
                };
                let seconds = at.since(since).as_secs_f64();
                format!("{writer} leads, {seconds:.1} s after {before} {lost}")
            }
            None => format!("{writer} leads instead of {before}"),
        })
    }

    /// Returns a replica with its current role.
    pub(super) fn name(&self, replica: &str) -> ReplicaName {
        let role = self.leader.as_deref().map(|leader| {
            if leader == replica {
                ElectedRole::Leader
            } else {
                ElectedRole::Standby
            }
        });
        ReplicaName {
            replica: replica.into(),
            role,
        }
    }

    /// Returns the replica that fenced a cluster last; `None` if there is no election.
    pub(super) fn fenced_by(&self, cluster: &str) -> Option<&ReplicaName> {
        let writer = self.writers.get(cluster);
        writer.filter(|writer| writer.role.is_some())
    }

    /// Describes all replicas, such as `prober-0 leads, prober-1 stands by`; `None` if there is
    /// no election.
    pub(super) fn summary(&self) -> Option<String> {
        let leader = self.leader.as_ref()?;
        let describe = |(name, state): (&Arc<str>, &ReplicaState)| {
            let status = match state {
                ReplicaState::Crashed => "crashed",
                ReplicaState::Paused => "is paused",
                _ if name == leader => "leads",
                _ => "stands by",
            };
            format!("{name} {status}")
        };
        let replicas: Vec<String> = self.replicas.iter().map(describe).collect();
        Some(replicas.join(", "))
    }
}

impl ReplicaName {
    /// Returns the name without the role.
    pub(super) fn name(&self) -> &str {
        match self.role {
            Some(_) => &self.replica,
            None => "the prober",
        }
    }

    /// Returns the name of a replica that has just started.
    pub(super) fn new_name(&self) -> &str {
        match self.role {
            Some(_) => &self.replica,
            None => "a new prober",
        }
    }

    pub(super) fn is_standby(&self) -> bool {
        self.role == Some(ElectedRole::Standby)
    }
}

impl fmt::Display for ReplicaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.role {
            Some(ElectedRole::Leader) => "leader ",
            Some(ElectedRole::Standby) => "standby ",
            None => "",
        })?;
        f.write_str(self.name())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn request(second: i64, user: &str, verb: &'static str, path: &str) -> SimEvent {
        let at = Time::from_unix(second, 0);
        SimEvent {
            at,
            kind: SimEventKind::Request {
                server: "seed".into(),
                received_at: at,
                was_held: false,
                user: user.to_owned(),
                verb,
                path: path.to_owned(),
                status: 200,
            },
        }
    }

    fn renewal(second: i64, user: &str) -> SimEvent {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/garden/leases/{LEASE}");
        request(second, user, "update", &path)
    }

    fn change(second: i64, replica: &str, state: ReplicaState) -> ReplicaChange {
        ReplicaChange {
            at: Time::from_unix(second, 0),
            replica: replica.into(),
            state,
        }
    }

    /// Two replicas, of which the first leads.
    pub(in super::super) fn pair() -> Leadership {
        let mut pair = Leadership::default();
        pair.on_change(&change(0, "prober-0", ReplicaState::Started));
        pair.on_change(&change(0, "prober-1", ReplicaState::Started));
        assert_eq!(pair.summary(), None);
        assert_eq!(pair.on_event(&renewal(1, "kelpie-prober-0")), None);
        pair
    }

    #[test]
    fn next_leader_is_announced_once() {
        let mut pair = pair();
        pair.on_change(&change(10, "prober-0", ReplicaState::Crashed));
        assert_eq!(
            pair.summary().unwrap(),
            "prober-0 crashed, prober-1 stands by"
        );
        assert_eq!(
            pair.on_event(&renewal(25, "kelpie-prober-1")).unwrap(),
            "prober-1 leads, 15.0 s after prober-0 crashed"
        );
        assert_eq!(pair.on_event(&renewal(27, "kelpie-prober-1")), None);
        pair.on_change(&change(30, "prober-2", ReplicaState::Started));
        assert_eq!(
            pair.summary().unwrap(),
            "prober-1 leads, prober-2 stands by"
        );
    }

    #[test]
    fn changes_and_events_are_ordered_by_time() {
        let mut pair = pair();
        let events = [
            renewal(5, "kelpie-prober-1"),
            renewal(20, "kelpie-prober-0"),
        ];
        let changes = [change(6, "prober-1", ReplicaState::Crashed)];
        let (changed, leaders) = pair.update(&events, &changes);
        let names: Vec<String> = changed.iter().map(|(_, name)| name.to_string()).collect();
        assert_eq!(names, ["leader prober-1"]);
        assert_eq!(
            leaders,
            [
                "prober-1 leads instead of prober-0",
                "prober-0 leads, 14.0 s after prober-1 crashed"
            ]
        );
    }

    #[test]
    fn resumed_leader_was_not_lost() {
        let mut pair = pair();
        pair.on_change(&change(10, "prober-0", ReplicaState::Paused));
        assert_eq!(
            pair.summary().unwrap(),
            "prober-0 is paused, prober-1 stands by"
        );
        pair.on_change(&change(12, "prober-0", ReplicaState::Resumed));
        assert_eq!(
            pair.on_event(&renewal(40, "kelpie-prober-1")).unwrap(),
            "prober-1 leads instead of prober-0"
        );
    }

    #[test]
    fn fence_names_the_replica_and_its_role() {
        let mut pair = pair();
        let path = "/apis/apps/v1/namespaces/shoot--a/deployments/kube-controller-manager";
        assert_eq!(pair.fenced_by("shoot--a"), None);
        for (user, path, expected) in [
            ("kelpie-prober-0", path.to_owned(), "leader prober-0"),
            (
                "kelpie-prober-1",
                format!("{path}/scale"),
                "standby prober-1",
            ),
        ] {
            assert_eq!(pair.on_event(&request(5, user, "patch", &path)), None);
            let name = pair.fenced_by("shoot--a").unwrap();
            assert_eq!(name.to_string(), expected);
        }
    }

    #[test]
    fn other_requests_are_not_relevant() {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/garden/leases/dwd-weeder";
        assert!(!is_relevant(&request(
            0,
            "kelpie-weeder-0",
            "update",
            lease
        )));
        let path = "/apis/apps/v1/namespaces/a/deployments/kube-controller-manager";
        assert!(is_relevant(&request(0, "kelpie-prober-0", "patch", path)));
        assert!(!is_relevant(&request(0, "kelpie-prober-0", "get", path)));
    }
}
