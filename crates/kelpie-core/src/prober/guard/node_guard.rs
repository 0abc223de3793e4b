//! The guard of one cluster: permits in, calls out.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::GuardSettings;
use super::call::{GuardCall, GuardReply, StoredBinding, StoredPolicy};
use super::content::{GuardContent, GuardMark};
use super::permits::{Judgement, Permits};
use super::retry::{CallKind, Retries};
use super::state::GuardState;
use crate::Time;
use crate::prober::fence::ResourceVersion;

/// The policy and the binding are read this often, to find changes by others.
const CHECK_INTERVAL: Duration = Duration::from_secs(20);
/// The enforced content is asked for at least this often.
const PROOF_INTERVAL: Duration = Duration::from_mins(10);
/// A standby leaves a change to the leader for this long.
const STANDBY_DELAY: Duration = Duration::from_secs(2);

/// The role of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardRole {
    /// Writes as soon as something is to be written.
    Leader,
    /// Writes what the leader has not written in time.
    Standby,
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

impl GuardStep {
    fn kind(self) -> CallKind {
        match self {
            Self::ReadPolicy | Self::ReadBinding => CallKind::Read,
            Self::WritePolicy | Self::WriteBinding => CallKind::Write,
            Self::AskEnforced => CallKind::Ask,
        }
    }
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
    /// The version of the policy that this replica wrote last.
    own_version: Option<ResourceVersion>,
    /// The end of the last policy that named this watchdog.
    own_until: Option<Time>,
    /// The time by which the API server's clock is ahead, in microseconds.
    server_offset: i64,
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
    retries: Retries,
}

/// The permits that the last judgement called for.
#[derive(Debug)]
struct WantedPermits {
    permits: Permits,
    /// The nodes whose permits stay as they are.
    undecided: Vec<Arc<str>>,
    /// The instant at which they came to differ from those in the policy.
    differ_since: Option<Time>,
    /// The judgement counts until this instant.
    until: Time,
}

impl WantedPermits {
    /// Returns the permits to write in place of a policy.
    fn after(&self, stored: Option<&GuardContent>) -> Cow<'_, Permits> {
        let is_kept = |node: &&Arc<str>| stored.is_some_and(|stored| stored.permits.contains(node));
        let mut kept = self.undecided.iter().filter(is_kept).peekable();
        match self.permits.names() {
            Some(names) if kept.peek().is_some() => {
                Cow::Owned(names.iter().chain(kept).map(Arc::clone).collect())
            }
            _ => Cow::Borrowed(&self.permits),
        }
    }
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
            own_version: None,
            own_until: None,
            server_offset: 0,
            was_armed: false,
            enforced: None,
            proven_at: None,
            checked_at: Time::MIN,
            calling: false,
            barrier: None,
            retries: Retries::default(),
        }
    }

    /// Takes in a judgement. It counts until `until`; a guard without a newer one runs out.
    pub fn permit(&mut self, judgement: Judgement, until: Time, now: Time) {
        let differ_since = self.wanted.as_ref().and_then(|wanted| wanted.differ_since);
        self.wanted = Some(WantedPermits {
            permits: judgement.permits,
            undecided: judgement.undecided,
            differ_since,
            until,
        });
        self.compare(now);
    }

    /// Takes in the API server's time at `now`, which an answer told. Every answer before the
    /// first write has to be told: the end of the guard is an instant of that clock.
    pub fn observe_server_time(&mut self, server_time: Time, now: Time) {
        self.server_offset = server_time.as_micros().saturating_sub(now.as_micros());
    }

    /// Returns the API server's time at `now`.
    fn server_time(&self, now: Time) -> Time {
        now.plus(self.server_offset)
    }

    /// Returns the instant at which the API server's clock shows `server_time`.
    fn local_time(&self, server_time: Time) -> Time {
        server_time.plus(self.server_offset.saturating_neg())
    }

    /// Tries again what was refused, because the credentials have changed.
    pub fn credentials_changed(&mut self) {
        if self.barrier.take().is_some() {
            self.retries = Retries::default();
        }
    }

    /// Notes since when the permits in the policy are not those wanted.
    fn compare(&mut self, now: Time) {
        if let Some(wanted) = &mut self.wanted {
            let stored = self.policy.content();
            let differ = stored.is_some_and(|stored| stored.permits != *wanted.after(Some(stored)));
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
        if self.wanted.is_none() {
            return GuardState::Unknown;
        }
        let server_now = self.server_time(now);
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
                let server_now = self.server_time(now);
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
        Some((at.max(self.retries.not_before(step.kind())), step))
    }

    fn read_or_write(
        &self,
        wanted: &WantedPermits,
        role: GuardRole,
        now: Time,
    ) -> (Time, GuardStep) {
        let server_now = self.server_time(now);
        let policy = match &self.policy {
            Known::Unread => return (Time::MIN, GuardStep::ReadPolicy),
            Known::Missing => None,
            Known::Present(policy) => Some(policy),
        };
        if let Some(other) = policy.and_then(|policy| self.foreign(policy, server_now)) {
            let over_at = self.local_time(other);
            let check = self.checked_at.after(CHECK_INTERVAL);
            return (check.min(over_at), GuardStep::ReadPolicy);
        }
        let binding = match &self.binding {
            Known::Unread => return (Time::MIN, GuardStep::ReadBinding),
            Known::Missing => None,
            Known::Present(binding) => Some(binding),
        };
        // What is missing was found at the last check.
        let restore_at = match role {
            GuardRole::Leader => Time::MIN,
            GuardRole::Standby => self.checked_at.after(STANDBY_DELAY),
        };
        let stored = policy.and_then(|policy| policy.content.as_ref());
        let Some(stored) = stored.filter(|stored| self.is_plausible(stored, server_now)) else {
            return (restore_at, GuardStep::WritePolicy);
        };
        if !binding.is_some_and(|binding| binding.is_intact) {
            return (restore_at, GuardStep::WriteBinding);
        }
        let write_at = self.write_at(wanted, stored, role);
        let proof_at = match self.proven_at.filter(|_| self.is_proven(stored)) {
            Some(proven_at) => proven_at.after(PROOF_INTERVAL),
            None => Time::MIN,
        };
        let steps = [
            (write_at, GuardStep::WritePolicy),
            // Before the proof: a deleted policy is never proven.
            (self.checked_at.after(CHECK_INTERVAL), GuardStep::ReadPolicy),
            (proof_at, GuardStep::AskEnforced),
        ];
        let steps = steps.map(|(at, step)| (at.max(self.retries.not_before(step.kind())), step));
        // Of several due steps, the first one counts most.
        let due = steps.iter().find(|(at, _)| *at <= now);
        let next = || steps.iter().min_by_key(|(at, _)| *at);
        due.or_else(next)
            .copied()
            .unwrap_or((Time::MAX, GuardStep::ReadPolicy))
    }

    /// Returns the instant from which an intact policy is to be written again.
    ///
    /// Replicas may judge differently for a while: one that has just started does not know of a
    /// trip that is over. So a standby changes the permits only where it wrote the policy last, or
    /// where no replica has renewed it in time. A leader that lives is never undone.
    fn write_at(&self, wanted: &WantedPermits, stored: &GuardContent, role: GuardRole) -> Time {
        let left = match role {
            GuardRole::Leader => self.settings.duration.saturating_mul(2) / 3,
            GuardRole::Standby => self.settings.duration / 2,
        };
        let change_at = wanted.differ_since.and_then(|since| match role {
            GuardRole::Leader => Some(since),
            GuardRole::Standby => self.keeps_policy().then(|| since.after(STANDBY_DELAY)),
        });
        let renewal_at = self.local_time(stored.until).before(left);
        change_at.map_or(renewal_at, |change_at| change_at.min(renewal_at))
    }

    /// Returns whether this replica wrote the policy last, as far as it knows.
    fn keeps_policy(&self) -> bool {
        let version = self.policy.present().map(|policy| &policy.version);
        version.is_some() && version == self.own_version.as_ref()
    }

    /// Returns the instant at which the guard runs out unless it is renewed; `None` if it has, or
    /// if there is none.
    pub fn runs_out_at(&self, now: Time) -> Option<Time> {
        match self.state(now) {
            GuardState::Armed { until } | GuardState::Unproven { until } => {
                Some(self.local_time(until))
            }
            _ => None,
        }
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
            permits: wanted.after(stored).into_owned(),
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
                self.retries.refused(self.was_armed, now);
                return;
            }
            (GuardCall::ReadPolicy, GuardReply::Policy(policy)) => self.found(policy, now),
            (GuardCall::ReadBinding, GuardReply::Binding(binding)) => {
                self.binding = binding.map_or(Known::Missing, Known::Present);
            }
            (GuardCall::WritePolicy { content, .. }, GuardReply::Written(version)) => {
                if self.policy.content().is_none() {
                    // Until the restored policy is enforced, none is.
                    self.enforced = None;
                }
                self.own_version = Some(version.clone());
                self.own_until = Some(content.until);
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
                    return self.fail(call, now);
                }
            }
            _ => {
                self.forget();
                return self.fail(call, now);
            }
        }
        self.retries.succeeded(call.into());
        self.compare(now);
    }

    /// Takes in the policy as it was read.
    fn found(&mut self, policy: Option<StoredPolicy>, now: Time) {
        self.checked_at = now;
        // The binding is read with the policy.
        self.binding = Known::Unread;
        let mut policy = policy;
        if let Some(policy) = &mut policy {
            let until = policy.content.as_ref().map(|content| content.until);
            if policy.owner == self.owner {
                self.own_until = until;
            } else if until == self.own_until {
                // Another watchdog writes an end of its own: only the owner was edited.
                policy.content = None;
            }
        }
        self.policy = policy.map_or(Known::Missing, Known::Present);
    }

    /// Reads everything again before the next write.
    fn forget(&mut self) {
        self.policy = Known::Unread;
        self.binding = Known::Unread;
    }

    fn fail(&mut self, call: &GuardCall, now: Time) {
        self.retries.failed(call.into(), now);
        self.compare(now);
    }
}

/// Returns the whole second at or before an instant.
fn whole_seconds(time: Time) -> Time {
    let micros = time.as_micros();
    Time::from_micros(micros.saturating_sub(micros.rem_euclid(1_000_000)))
}
