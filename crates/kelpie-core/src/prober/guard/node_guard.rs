//! The guard of one cluster: permits in, calls out.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::GuardSettings;
use super::call::{GuardCall, GuardReply, StoredBinding, StoredPolicy};
use super::content::{GuardContent, GuardMark};
use super::permits::Permits;
use crate::Time;

/// The policy and the binding are read this often, to find changes by others.
const CHECK_INTERVAL: Duration = Duration::from_secs(20);
/// The enforced content is asked for at least this often.
const PROOF_INTERVAL: Duration = Duration::from_mins(10);
/// A standby leaves a change of permits to the leader for this long.
const STANDBY_DELAY: Duration = Duration::from_secs(2);
/// A call that failed is repeated after this, then ever more slowly.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const SLOWEST_RETRY: Duration = Duration::from_secs(10);
/// A call that the cluster refused is repeated after this.
const REFUSED_RETRY: Duration = Duration::from_mins(5);

/// The role of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardRole {
    /// Writes as soon as something is to be written.
    Leader,
    /// Writes what the leader has not written in time.
    Standby,
}

/// The state of a guard, as people see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum GuardState {
    /// Nothing is known yet, or the leases prove nothing.
    Unknown,
    /// The API server does not know policies.
    Unsupported,
    /// The credentials do not allow to write the policy.
    Refused,
    /// Another watchdog guards the cluster.
    #[serde(rename_all = "camelCase")]
    Foreign {
        /// The watchdog that wrote the policy.
        owner: String,
    },
    /// Another client deleted or changed the policy or its binding. It is being restored.
    Lost,
    /// The policy is written, but was not seen to be enforced.
    #[serde(rename_all = "camelCase")]
    Unproven {
        /// The end of the guard on the API server's clock.
        until: Time,
    },
    /// The policy is enforced.
    #[serde(rename_all = "camelCase")]
    Armed {
        /// The end of the guard on the API server's clock.
        until: Time,
    },
    /// The policy has run out, because the prober could not renew it.
    Expired,
}

impl GuardState {
    /// Returns the state as it appears in metric labels.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Unsupported => "unsupported",
            Self::Refused => "refused",
            Self::Foreign { .. } => "foreign",
            Self::Lost => "lost",
            Self::Unproven { .. } => "unproven",
            Self::Armed { .. } => "armed",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for GuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("not armed yet"),
            Self::Unsupported => {
                f.write_str("the API server has no ValidatingAdmissionPolicy (Kubernetes 1.30)")
            }
            Self::Refused => f.write_str("the kubeconfig does not allow it"),
            Self::Foreign { owner } => write!(f, "kept by another watchdog, {owner}"),
            Self::Lost => f.write_str("another client deleted or changed it; restoring it"),
            Self::Unproven { until } => {
                write!(f, "written until {until}, not seen to be enforced yet")
            }
            Self::Armed { until } => write!(f, "armed until {until}"),
            Self::Expired => f.write_str("it has run out"),
        }
    }
}

/// An object of the cluster, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Known<T> {
    /// It was not read, or not since a write of unknown result.
    Unread,
    Missing,
    Present(T),
}

impl<T> Known<T> {
    fn present(&self) -> Option<&T> {
        match self {
            Self::Present(object) => Some(object),
            Self::Unread | Self::Missing => None,
        }
    }
}

impl Known<StoredPolicy> {
    fn content(&self) -> Option<&GuardContent> {
        self.present()?.content.as_ref()
    }
}

/// A call to make, without what it writes.
#[derive(Clone, Copy, Debug)]
enum GuardStep {
    ReadPolicy,
    ReadBinding,
    WritePolicy,
    WriteBinding,
    AskEnforced,
}

/// The guard of one cluster.
///
/// It keeps a policy in the cluster that runs out by itself, and says which call to make next.
/// Every call that is handed out must come back through [`reply`](Self::reply). One call is under
/// way at a time.
#[derive(Debug)]
pub struct NodeGuard {
    settings: GuardSettings,
    /// The identity of this watchdog. Its replicas share it.
    owner: String,
    wanted: Option<WantedPermits>,
    policy: Known<StoredPolicy>,
    binding: Known<StoredBinding>,
    /// This process has seen the guard in place.
    was_armed: bool,
    /// The enforced content, by the last denied request.
    enforced: Option<GuardMark>,
    /// The instant at which the enforced content was last as expected.
    proven_at: Option<Time>,
    checked_at: Time,
    calling: bool,
    /// The last call was refused, or cannot work.
    barrier: Option<GuardReply>,
    failures: u32,
    /// No call is made before this instant.
    retry_at: Time,
}

/// The permits that the last judgement called for.
#[derive(Debug)]
struct WantedPermits {
    permits: Permits,
    /// The instant at which they came to differ from those in the policy.
    differ_since: Option<Time>,
    /// The judgement counts until this instant.
    until: Time,
    /// The time by which the API server's clock is ahead, in microseconds.
    server_offset: i64,
}

impl NodeGuard {
    /// Creates the guard of a cluster about which nothing is known.
    pub fn new(settings: GuardSettings, owner: impl Into<String>) -> Self {
        Self {
            settings,
            owner: owner.into(),
            wanted: None,
            policy: Known::Unread,
            binding: Known::Unread,
            was_armed: false,
            enforced: None,
            proven_at: None,
            checked_at: Time::MIN,
            calling: false,
            barrier: None,
            failures: 0,
            retry_at: Time::MIN,
        }
    }

    /// Takes in a judgement. It counts until `until`; a guard without a newer one runs out.
    /// `server_time` is the API server's time at `now`.
    pub fn permit(&mut self, permits: Permits, server_time: Time, until: Time, now: Time) {
        let differ_since = self.wanted.as_ref().and_then(|wanted| wanted.differ_since);
        let server_offset = server_time.as_micros().saturating_sub(now.as_micros());
        self.wanted = Some(WantedPermits {
            permits,
            differ_since,
            until,
            server_offset,
        });
        self.compare(now);
    }

    /// Tries again what was refused, because the credentials have changed.
    pub fn credentials_changed(&mut self) {
        if self.barrier.take().is_some() {
            self.retry_at = Time::MIN;
        }
    }

    /// Notes since when the permits in the policy are not those wanted.
    fn compare(&mut self, now: Time) {
        if let Some(wanted) = &mut self.wanted {
            let stored = self.policy.content();
            let differ = stored.is_some_and(|stored| stored.permits != wanted.permits);
            wanted.differ_since = differ.then(|| wanted.differ_since.unwrap_or(now));
        }
    }

    /// Returns the state of the guard at `now`.
    pub fn state(&self, now: Time) -> GuardState {
        match self.barrier {
            Some(GuardReply::Unsupported) => return GuardState::Unsupported,
            Some(GuardReply::Refused) => return GuardState::Refused,
            _ => {}
        }
        let Some(wanted) = &self.wanted else {
            return GuardState::Unknown;
        };
        let server_now = now.plus(wanted.server_offset);
        let policy = match &self.policy {
            Known::Present(policy) => Some(policy),
            Known::Missing => None,
            Known::Unread => return GuardState::Unknown,
        };
        if let Some(policy) = policy
            && self.foreign(policy, server_now).is_some()
        {
            let owner = policy.owner.clone();
            return GuardState::Foreign { owner };
        }
        let is_bound = match &self.binding {
            Known::Unread => true,
            Known::Missing => false,
            Known::Present(binding) => binding.is_intact,
        };
        match self.policy.content() {
            Some(content) if is_bound => self.content_state(content, server_now),
            _ if self.was_armed => GuardState::Lost,
            _ => GuardState::Unknown,
        }
    }

    fn content_state(&self, content: &GuardContent, server_now: Time) -> GuardState {
        let until = content.until;
        if until <= server_now {
            GuardState::Expired
        } else if self.is_proven(content) {
            GuardState::Armed { until }
        } else {
            GuardState::Unproven { until }
        }
    }

    /// Returns the call to make now.
    pub fn poll(&mut self, role: GuardRole, now: Time) -> Option<GuardCall> {
        let (_, step) = self.next_step(role, now).filter(|(at, _)| *at <= now)?;
        let call = self.call(step, now)?;
        self.calling = true;
        Some(call)
    }

    /// Returns the instant at which there is a call to make, if no judgement changes that.
    pub fn next_wake(&self, role: GuardRole, now: Time) -> Option<Time> {
        self.next_step(role, now).map(|(at, _)| at)
    }

    /// Returns the call of a step, with what it writes.
    fn call(&self, step: GuardStep, now: Time) -> Option<GuardCall> {
        Some(match step {
            GuardStep::ReadPolicy => GuardCall::ReadPolicy,
            GuardStep::ReadBinding => GuardCall::ReadBinding,
            GuardStep::WritePolicy => {
                let wanted = self.wanted.as_ref()?;
                let server_now = now.plus(wanted.server_offset);
                GuardCall::WritePolicy {
                    content: self.next_content(wanted, self.policy.content(), server_now),
                    replaces: self.policy.present().map(|policy| policy.version.clone()),
                }
            }
            GuardStep::WriteBinding => GuardCall::WriteBinding {
                replaces: self
                    .binding
                    .present()
                    .map(|binding| binding.version.clone()),
            },
            GuardStep::AskEnforced => GuardCall::AskEnforced,
        })
    }

    /// Returns the next step and the instant from which it may be made.
    fn next_step(&self, role: GuardRole, now: Time) -> Option<(Time, GuardStep)> {
        if self.calling {
            return None;
        }
        let wanted = self.wanted.as_ref().filter(|wanted| now <= wanted.until)?;
        let (at, step) = self.read_or_write(wanted, role, now);
        Some((at.max(self.retry_at), step))
    }

    fn read_or_write(
        &self,
        wanted: &WantedPermits,
        role: GuardRole,
        now: Time,
    ) -> (Time, GuardStep) {
        let server_now = now.plus(wanted.server_offset);
        let policy = match &self.policy {
            Known::Unread => return (Time::MIN, GuardStep::ReadPolicy),
            Known::Missing => None,
            Known::Present(policy) => Some(policy),
        };
        if let Some(other) = policy.and_then(|policy| self.foreign(policy, server_now)) {
            let over_at = other.plus(wanted.server_offset.saturating_neg());
            let check = self.checked_at.after(CHECK_INTERVAL);
            return (check.min(over_at), GuardStep::ReadPolicy);
        }
        let binding = match &self.binding {
            Known::Unread => return (Time::MIN, GuardStep::ReadBinding),
            Known::Missing => None,
            Known::Present(binding) => Some(binding),
        };
        let stored = policy.and_then(|policy| policy.content.as_ref());
        let Some(stored) = stored.filter(|stored| self.is_plausible(stored, server_now)) else {
            return (Time::MIN, GuardStep::WritePolicy);
        };
        if !binding.is_some_and(|binding| binding.is_intact) {
            return (Time::MIN, GuardStep::WriteBinding);
        }
        let change_at = wanted.differ_since.map(|since| match role {
            GuardRole::Leader => since,
            GuardRole::Standby => since.after(STANDBY_DELAY),
        });
        let left = match role {
            GuardRole::Leader => self.settings.duration.saturating_mul(2) / 3,
            GuardRole::Standby => self.settings.duration / 2,
        };
        let until = stored.until.plus(wanted.server_offset.saturating_neg());
        let write_at = until.before(left).min(change_at.unwrap_or(Time::MAX));
        let proof_at = match self.proven_at.filter(|_| self.is_proven(stored)) {
            Some(proven_at) => proven_at.after(PROOF_INTERVAL),
            None => Time::MIN,
        };
        let check_at = self.checked_at.after(CHECK_INTERVAL);
        let steps = [
            (write_at, GuardStep::WritePolicy),
            (proof_at, GuardStep::AskEnforced),
            (check_at, GuardStep::ReadPolicy),
        ];
        // Of several due steps, the first one counts most.
        let due = steps.iter().find(|(at, _)| *at <= now);
        let next = || steps.iter().min_by_key(|(at, _)| *at);
        due.or_else(next)
            .copied()
            .unwrap_or((Time::MAX, GuardStep::ReadPolicy))
    }

    /// Returns the end of the guard if another watchdog keeps it up.
    fn foreign(&self, policy: &StoredPolicy, server_now: Time) -> Option<Time> {
        let content = policy.content.as_ref()?;
        let is_foreign = policy.owner != self.owner && self.is_plausible(content, server_now);
        (is_foreign && content.until > server_now).then_some(content.until)
    }

    /// Returns whether a watchdog would have written this end at this time.
    fn is_plausible(&self, content: &GuardContent, server_now: Time) -> bool {
        content.until <= server_now.after(self.settings.duration.saturating_mul(2))
    }

    /// Returns the content to write. The end of the guard never moves back, unless it is too far
    /// ahead to be ours.
    fn next_content(
        &self,
        wanted: &WantedPermits,
        stored: Option<&GuardContent>,
        server_now: Time,
    ) -> GuardContent {
        let until = whole_seconds(server_now.after(self.settings.duration));
        let stored = stored.filter(|stored| self.is_plausible(stored, server_now));
        GuardContent {
            until: stored.map_or(until, |stored| stored.until.max(until)),
            permits: wanted.permits.clone(),
        }
    }

    /// Returns whether the permits of this content were seen to be enforced.
    fn is_proven(&self, content: &GuardContent) -> bool {
        let mark = content.mark();
        self.enforced
            .is_some_and(|enforced| enforced.permits_hash == mark.permits_hash)
    }

    /// Takes in the reply to a call.
    pub fn reply(&mut self, call: &GuardCall, reply: GuardReply, now: Time) {
        self.calling = false;
        self.barrier = None;
        match (call, reply) {
            (_, reply @ (GuardReply::Unsupported | GuardReply::Refused)) => {
                self.forget();
                self.barrier = Some(reply);
                self.retry_at = now.after(REFUSED_RETRY);
                return;
            }
            (GuardCall::ReadPolicy, GuardReply::Policy(policy)) => {
                self.checked_at = now;
                // The binding is read with the policy.
                self.binding = Known::Unread;
                self.policy = policy.map_or(Known::Missing, Known::Present);
            }
            (GuardCall::ReadBinding, GuardReply::Binding(binding)) => {
                self.binding = binding.map_or(Known::Missing, Known::Present);
            }
            (GuardCall::WritePolicy { content, .. }, GuardReply::Written(version)) => {
                self.policy = Known::Present(StoredPolicy {
                    version,
                    owner: self.owner.clone(),
                    content: Some(content.clone()),
                });
            }
            (GuardCall::WriteBinding { .. }, GuardReply::Written(version)) => {
                self.enforced = None;
                let is_intact = true;
                self.binding = Known::Present(StoredBinding { version, is_intact });
            }
            (GuardCall::AskEnforced, GuardReply::Enforced(mark)) => {
                self.enforced = mark;
                let content = self.policy.content();
                if content.is_some_and(|content| self.is_proven(content)) {
                    self.proven_at = Some(now);
                    self.was_armed = true;
                } else {
                    return self.fail(now);
                }
            }
            _ => {
                self.forget();
                return self.fail(now);
            }
        }
        self.failures = 0;
        self.retry_at = Time::MIN;
        self.compare(now);
    }

    /// Reads everything again before the next write.
    fn forget(&mut self) {
        self.policy = Known::Unread;
        self.binding = Known::Unread;
    }

    fn fail(&mut self, now: Time) {
        let pause = FIRST_RETRY.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now.after(pause.min(SLOWEST_RETRY));
        self.compare(now);
    }
}

/// Returns the whole second at or before an instant.
fn whole_seconds(time: Time) -> Time {
    let micros = time.as_micros();
    Time::from_micros(micros.saturating_sub(micros.rem_euclid(1_000_000)))
}
