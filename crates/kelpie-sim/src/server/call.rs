//! A request as the server understands it, and what may become of it.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use tokio::sync::Notify;

use crate::refusal::Refusal;
use crate::resource::Resource;
use crate::store::Store;

/// Who asks for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it came.
    pub at: Time,
    /// It is not carried out before somebody says so.
    pub is_held: bool,
    /// Who asks.
    pub user: User,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; for what is no
    /// object, the method in small letters.
    pub verb: &'static str,
    /// Of which objects; none for `/version` and the like.
    pub resource: Option<Resource>,
    /// Such as `scale`; may be empty.
    pub subresource: String,
    /// May be empty.
    pub namespace: String,
    /// May be empty.
    pub name: String,
    /// The path, without what is behind the question mark.
    pub path: String,
}

/// Somebody the server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
}

impl User {
    /// Somebody with a name and groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        let name = name.to_owned();
        Self { name, groups }
    }

    /// Who may do everything.
    pub fn admin() -> Self {
        Self::new("admin", &[MASTERS, "system:authenticated"])
    }

    /// Who has not said who they are.
    pub(super) fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }
}

/// Its members may do everything.
pub(super) const MASTERS: &str = "system:masters";

/// What becomes of a request. By default it is served.
#[derive(Clone, Debug, Default)]
pub struct Fate {
    /// Nothing happens for so long.
    pub delay: Duration,
    /// What is done then.
    pub deed: Deed,
    /// What becomes of the answer.
    pub delivery: Delivery,
    /// A watch is cut off after so long.
    pub watch_for: Option<Duration>,
    /// It is under way until this rings, and is done then also if nobody waits for the answer any more.
    pub held: Option<Arc<Notify>>,
}

/// What is done with a request.
#[derive(Clone, Debug, Default)]
pub enum Deed {
    /// What it asks for.
    #[default]
    Serve,
    /// Reads are answered from an older copy; writes go where they should.
    ServeFrom(Store),
    /// It is refused.
    Refuse(Refusal),
    /// Nothing at all: with a delivery, an empty answer.
    Nothing,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The client gets it.
    #[default]
    Whole,
    /// The connection breaks off before.
    Lost,
    /// It never comes; the connection stays.
    Never,
}

impl Fate {
    /// Refused.
    pub fn refuse(refusal: Refusal) -> Self {
        Self {
            deed: Deed::Refuse(refusal),
            ..Self::default()
        }
    }

    /// Nothing is done, and the connection breaks off.
    pub fn reset() -> Self {
        Self {
            deed: Deed::Nothing,
            delivery: Delivery::Lost,
            ..Self::default()
        }
    }

    /// Nothing is done, and no answer comes.
    pub fn hang() -> Self {
        Self {
            deed: Deed::Nothing,
            delivery: Delivery::Never,
            ..Self::default()
        }
    }

    /// Served when this rings, also if nobody waits for the answer any more.
    pub fn held(until: Arc<Notify>) -> Self {
        Self {
            held: Some(until),
            ..Self::default()
        }
    }

    /// Served after a while.
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }
}

/// Decides about every request, in the order they come.
pub type FateHook = Arc<dyn Fn(&Call) -> Fate + Send + Sync>;

/// Whether somebody may do what they ask for.
pub type RightsHook = Arc<dyn Fn(&Call) -> bool + Send + Sync>;

/// Is shown every request with the status of its answer, 0 if there was none.
pub type LogHook = Arc<dyn Fn(&Call, u16) + Send + Sync>;

/// What others have to say about requests.
#[derive(Clone, Default)]
pub struct Hooks {
    /// By default all are served.
    pub fate: Option<FateHook>,
    /// By default `system:masters` may do everything, and others what every API server lets them.
    pub rights: Option<RightsHook>,
    /// By default nobody is shown anything.
    pub log: Option<LogHook>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}
