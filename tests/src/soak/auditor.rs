//! Checks the invariants of the probers, from the writes that the API server accepted and the true
//! history of the nodes. The probers' own logs and metrics do not count.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::audit_log::{AuditedWrite, DeploymentState, TargetKey, WrittenObject};
use super::node_history::NodeHistory;

/// The prefix of the user names of probers.
pub(super) const PROBER_USER_PREFIX: &str = "prober-";

/// A stopped server may have accepted writes that are missing from its log. States from this long
/// before and after such a stop are unknown.
const UNKNOWN_AROUND_STOP: Duration = Duration::from_secs(5);

/// Replays the writes of a soak, and collects violations.
#[derive(Default)]
pub(super) struct SoakAuditor {
    deployments: BTreeMap<TargetKey, DeploymentState>,
    /// The records that are kept on the Lease.
    kept: BTreeMap<TargetKey, String>,
    holder: String,
    /// The user that wrote the Lease when its holder was new.
    leader: Option<String>,
    report: SoakReport,
}

/// The result of a soak.
#[derive(Debug, Default)]
pub struct SoakReport {
    /// The violated invariants, in the order of the writes.
    pub violations: Vec<String>,
    /// The number of times a prober scaled a target down.
    pub scale_downs: usize,
    /// The number of times a prober scaled a target up.
    pub scale_ups: usize,
}

impl SoakAuditor {
    /// Audits all writes. `restarts` are the times at which the seed's API server was stopped or
    /// started.
    pub(super) fn audit(
        writes: &[AuditedWrite],
        restarts: &[Timestamp],
        history: &NodeHistory,
    ) -> SoakReport {
        let mut auditor = Self::default();
        let mut stops = restarts.iter().peekable();
        let mut unknown_until: Option<Timestamp> = None;
        for write in writes {
            while let Some(stop) = stops
                .next_if(|stop| write.at.duration_since(**stop) >= -signed(UNKNOWN_AROUND_STOP))
            {
                unknown_until = Some(*stop + UNKNOWN_AROUND_STOP);
            }
            if unknown_until.is_some_and(|until| write.at < until) {
                auditor.deployments.clear();
                auditor.leader = None;
            }
            auditor.replay(write, history);
        }
        auditor.report
    }

    fn replay(&mut self, write: &AuditedWrite, history: &NodeHistory) {
        let is_prober = write.user.starts_with(PROBER_USER_PREFIX);
        match &write.written {
            WrittenObject::Unknown(key) => {
                if self.deployments.remove(key).is_none() {
                    self.leader = None;
                }
            }
            WrittenObject::Lease(holder, kept) => {
                // A write with the same holder may be a record that a standby keeps.
                if self.leader.is_none() || *holder != self.holder {
                    self.leader = (!holder.is_empty()).then(|| write.user.clone());
                    self.holder.clone_from(holder);
                }
                self.kept.clone_from(kept);
            }
            WrittenObject::Deployment(key, state) => {
                let before = self.before(key);
                self.deployments.insert(key.clone(), state.clone());
                if is_prober {
                    self.check_patch(write, key, before.as_ref(), state, history);
                }
            }
            WrittenObject::Scale(key, replicas) => {
                let before = self.before(key);
                if is_prober {
                    if *replicas > 0 {
                        self.check_leader(write);
                    }
                    self.check_scale(write, key, before.as_ref(), *replicas, history);
                }
                if let Some(state) = self.deployments.get_mut(key) {
                    state.replicas = *replicas;
                }
            }
        }
    }

    /// Returns a Deployment before a write, with the record that is kept for it.
    fn before(&self, key: &TargetKey) -> Option<DeploymentState> {
        let mut before = self.deployments.get(key).cloned()?;
        if let Some(kept) = self.kept.get(key).filter(|_| !before.marked) {
            before.marked = true;
            before.recorded = Some(kept.clone());
        }
        Some(before)
    }

    /// Checks that the leader writes. Every replica may fence; only the leader does anything else.
    fn check_leader(&mut self, write: &AuditedWrite) {
        if let Some(leader) = self.leader.clone().filter(|leader| *leader != write.user) {
            self.violation(write, &format!("while {leader} leads"));
        }
    }

    /// Checks a patch of the Deployment itself: a fence, a restore, or a change of annotations.
    fn check_patch(
        &mut self,
        write: &AuditedWrite,
        key: &TargetKey,
        before: Option<&DeploymentState>,
        after: &DeploymentState,
        history: &NodeHistory,
    ) {
        let target = format!("{}/{}", key.0, key.1);
        let is_fence = after.replicas == 0 && after.marked;
        if is_fence && before.is_none_or(|before| before.replicas > 0) {
            self.report.scale_downs += 1;
            if !history.justifies_fence(&key.0, write.at) {
                self.violation(write, &format!("fences {target}, whose nodes are healthy"));
            }
        } else {
            self.check_leader(write);
        }
        let Some(before) = before else { return };
        if after.replicas > before.replicas {
            self.report.scale_ups += 1;
            let recorded = Some(after.replicas.to_string());
            if !before.marked || before.replicas > 0 || before.recorded != recorded {
                let text = format!("scales {target} from {before:?} to {after:?}");
                self.violation(write, &text);
            }
            if after.marked {
                self.violation(write, &format!("keeps the marker of {target}"));
            }
        } else if before.marked && before.replicas == 0 && after.recorded == before.recorded {
            // The record moves from the Lease to the target.
        } else if after.marked && after.recorded != Some(before.replicas.to_string()) {
            let text = format!(
                "records {:?} of {} replicas of {target}",
                after.recorded, before.replicas
            );
            self.violation(write, &text);
        }
        if after.replicas < before.replicas && !is_fence {
            self.violation(write, &format!("scales {target} down to {after:?}"));
        }
        if before.marked && !after.marked && after.replicas == 0 {
            self.violation(
                write,
                &format!("removes the marker of {target}, which is still scaled down"),
            );
        }
        if after.recorded.is_none() && before.recorded.is_some() {
            self.violation(write, &format!("removes the record of {target}"));
        }
    }

    /// Checks a write to the scale subresource.
    fn check_scale(
        &mut self,
        write: &AuditedWrite,
        key: &TargetKey,
        before: Option<&DeploymentState>,
        replicas: u64,
        history: &NodeHistory,
    ) {
        let target = format!("{}/{}", key.0, key.1);
        if replicas == 0 {
            self.report.scale_downs += 1;
            if !history.justifies_fence(&key.0, write.at) {
                self.violation(write, &format!("fences {target}, whose nodes are healthy"));
            }
        } else {
            self.report.scale_ups += 1;
        }
        let Some(before) = before else { return };
        if !before.marked {
            self.violation(
                write,
                &format!("scales {target} to {replicas} without a marker"),
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
            let text = format!("scales {target} from {before:?} to {replicas}");
            self.violation(write, &text);
        }
    }

    fn violation(&mut self, write: &AuditedWrite, what: &str) {
        let AuditedWrite {
            at, user, revision, ..
        } = write;
        let violation = format!("{at} (revision {revision}): {user} {what}");
        self.report.violations.push(violation);
    }
}

fn signed(time: Duration) -> k8s_openapi::jiff::SignedDuration {
    k8s_openapi::jiff::SignedDuration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::super::node_history::ClusterHistory;
    use super::*;
    use crate::landscape::{LeaseRenewal, Timings};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap_or_default()
    }

    fn key() -> TargetKey {
        ("a".to_owned(), "kcm".to_owned())
    }

    fn lease(holder: &str) -> WrittenObject {
        WrittenObject::Lease(holder.into(), BTreeMap::new())
    }

    fn deployment(replicas: u64, marked: bool, recorded: Option<&str>) -> WrittenObject {
        let recorded = recorded.map(str::to_owned);
        let state = DeploymentState {
            replicas,
            marked,
            recorded,
        };
        WrittenObject::Deployment(key(), state)
    }

    fn audit(silent: bool, writes: &[(&str, WrittenObject)]) -> Vec<String> {
        // A silent node renewed once, long ago. Without silence the cluster is unknown.
        let long_ago = Instant::now();
        let cluster = ClusterHistory {
            renewals: vec![vec![LeaseRenewal {
                at: long_ago,
                clock_was_right: true,
            }]],
            outages: Vec::new(),
        };
        let history = NodeHistory {
            timings: Timings::QUICK,
            anchor: (at(-60), long_ago),
            clusters: silent
                .then(|| ("a".to_owned(), cluster))
                .into_iter()
                .collect(),
        };
        let writes: Vec<AuditedWrite> = (0i64..)
            .zip(writes)
            .map(|(number, (user, written))| AuditedWrite {
                revision: u64::try_from(number).unwrap_or_default(),
                at: at(number),
                user: (*user).to_owned(),
                written: written.clone(),
            })
            .collect();
        SoakAuditor::audit(&writes, &[], &history).violations
    }

    #[test]
    fn fence_and_restore_are_accepted() {
        let writes = [
            ("admin", deployment(3, false, None)),
            ("prober-0", lease("x")),
            ("prober-0", deployment(0, true, Some("3"))),
            ("prober-0", lease("")),
            ("prober-1", lease("y")),
            ("prober-1", deployment(3, false, Some("3"))),
            // A standby may fence.
            ("prober-0", deployment(0, true, Some("3"))),
        ];
        assert_eq!(audit(true, &writes), Vec::<String>::new());
    }

    #[test]
    fn record_on_the_lease_counts() {
        let kept = WrittenObject::Lease("x".into(), [(key(), "3".into())].into());
        let scale = |replicas| WrittenObject::Scale(key(), replicas);
        let fence = [
            ("admin", deployment(3, false, None)),
            ("prober-0", lease("x")),
            ("prober-1", kept),
            ("prober-1", scale(0)),
        ];
        let restored = [("prober-0", scale(3)), ("prober-0", lease("x"))];
        let moved = [
            ("prober-0", deployment(0, true, Some("3"))),
            ("prober-0", lease("x")),
            ("prober-0", deployment(3, false, Some("3"))),
        ];
        for rest in [&restored[..], &moved] {
            let writes = [&fence, rest].concat();
            assert_eq!(audit(true, &writes), Vec::<String>::new());
        }
        let standby_restores = [&fence[..], &[("prober-1", scale(3))]].concat();
        assert_eq!(audit(true, &standby_restores).len(), 1);
    }

    #[test]
    fn violations_are_found() {
        let fenced = deployment(0, true, Some("3"));
        let cases = [
            (
                true,
                vec![
                    ("admin", deployment(3, false, None)),
                    ("prober-0", WrittenObject::Scale(key(), 0)),
                ],
                "without a marker",
            ),
            (
                false,
                vec![("prober-0", WrittenObject::Scale(key(), 0))],
                "whose nodes are healthy",
            ),
            (
                true,
                vec![
                    ("admin", fenced.clone()),
                    ("prober-0", WrittenObject::Scale(key(), 2)),
                ],
                "to 2",
            ),
            (
                true,
                vec![
                    ("admin", deployment(3, false, None)),
                    ("prober-0", deployment(3, true, Some("2"))),
                ],
                "records",
            ),
            (
                true,
                vec![
                    ("admin", fenced.clone()),
                    ("prober-0", deployment(0, false, Some("3"))),
                ],
                "still scaled down",
            ),
            (
                true,
                vec![
                    ("prober-1", lease("y")),
                    ("admin", fenced.clone()),
                    ("prober-0", deployment(3, false, Some("3"))),
                ],
                "while prober-1 leads",
            ),
            (
                true,
                vec![
                    ("admin", fenced.clone()),
                    ("prober-0", deployment(3, true, Some("3"))),
                ],
                "keeps the marker",
            ),
            (
                true,
                vec![
                    ("admin", deployment(3, false, None)),
                    ("prober-0", deployment(0, false, None)),
                ],
                "scales a/kcm down",
            ),
            (
                true,
                vec![
                    ("admin", fenced.clone()),
                    ("prober-0", deployment(2, false, Some("3"))),
                ],
                "from",
            ),
            (
                true,
                vec![
                    ("admin", deployment(5, true, Some("3"))),
                    ("prober-0", WrittenObject::Scale(key(), 3)),
                ],
                "from",
            ),
        ];
        for (silent, writes, words) in cases {
            let violations = audit(silent, &writes).join("\n");
            assert!(violations.contains(words), "{words}: {violations:?}");
        }
    }
}
