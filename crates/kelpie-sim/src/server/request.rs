//! A parsed request, and the faults that can be injected into it.

use std::sync::Arc;
use std::time::Duration;

use kelpie_core::Time;
use tokio::sync::Notify;

use crate::resource::GroupResource;
use crate::status_error::StatusError;
use crate::store::ObjectStore;

/// The attributes of a request, like `RequestInfo` of the Kubernetes API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The time of arrival.
    pub received_at: Time,
    /// True if [`FaultInjection::hold_until`] holds the request.
    pub is_held: bool,
    /// The authenticated user; anonymous if authentication failed.
    pub user: UserInfo,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`. For
    /// non-resource paths, the method in lower case.
    pub verb: &'static str,
    /// The requested resource. `None` for non-resource paths such as `/version`.
    pub resource: Option<GroupResource>,
    /// The subresource, such as `scale`; empty if none.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects and for all namespaces.
    pub namespace: String,
    /// The object's name; empty for collections.
    pub name: String,
    /// The path without the query.
    pub path: String,
}

/// An authenticated user, like `UserInfo` of `authentication.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserInfo {
    /// The name that the request is logged and authorized by.
    pub name: String,
    /// The groups, of which `system:masters` may do everything.
    pub groups: Vec<String>,
}

impl UserInfo {
    /// Creates a user with a name and groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        let name = name.to_owned();
        Self { name, groups }
    }

    /// Returns a user with all rights.
    pub fn admin() -> Self {
        Self::new("admin", &[MASTERS, "system:authenticated"])
    }

    /// Returns the user of requests without credentials.
    pub(super) fn anonymous() -> Self {
        Self::new("system:anonymous", &["system:unauthenticated"])
    }
}

/// The group whose members may do everything.
pub(super) const MASTERS: &str = "system:masters";

/// The faults to inject into a request. The default is none: the request is served.
#[derive(Clone, Debug, Default)]
pub struct FaultInjection {
    /// The time before the request is processed.
    pub delay: Duration,
    /// The action that replaces the request's own.
    pub action: InjectedAction,
    /// The delivery of the response.
    pub delivery: ResponseDelivery,
    /// Holds the request until this is notified. It is processed then even if the client has
    /// disconnected.
    pub hold_until: Option<Arc<Notify>>,
}

/// The action on a request.
#[derive(Clone, Debug, Default)]
pub enum InjectedAction {
    /// Processes the request as usual.
    #[default]
    Serve,
    /// Serves reads from an older snapshot. Writes go to the server's own store.
    ServeStale(ObjectStore),
    /// Responds with an error, without processing the request.
    Reject(StatusError),
    /// Does not process the request. A delivered response is empty.
    Skip,
}

/// The delivery of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseDelivery {
    /// The client receives the response.
    #[default]
    Complete,
    /// The connection is reset before the response.
    Reset,
    /// The response is never sent, and the connection stays open.
    Withheld,
    /// A successful response stops in the middle of its body.
    CutMidway {
        /// Resets the connection at that point. Otherwise it stays open.
        resets: bool,
    },
}

impl FaultInjection {
    /// Skips the request and resets the connection.
    pub fn reset() -> Self {
        Self::skip(ResponseDelivery::Reset)
    }

    /// Skips the request and never responds.
    pub fn hang() -> Self {
        Self::skip(ResponseDelivery::Withheld)
    }

    fn skip(delivery: ResponseDelivery) -> Self {
        Self {
            action: InjectedAction::Skip,
            delivery,
            ..Self::default()
        }
    }

    /// Responds with an error, without processing the request.
    pub fn reject(error: StatusError) -> Self {
        Self {
            action: InjectedAction::Reject(error),
            ..Self::default()
        }
    }

    /// Holds the request until `until` is notified. It is processed then even if the client has
    /// disconnected.
    pub fn held(until: Arc<Notify>) -> Self {
        Self {
            hold_until: Some(until),
            ..Self::default()
        }
    }

    /// Processes the request after a delay.
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }
}

/// Chooses the faults of each request, in the order of arrival.
pub type FaultHook = Arc<dyn Fn(&RequestInfo) -> FaultInjection + Send + Sync>;

/// Returns whether a user may make a request.
pub type AuthorizerHook = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// Called for each request with the status code of its response, 0 if none was delivered.
pub type LogHook = Arc<dyn Fn(&RequestInfo, u16) + Send + Sync>;

/// Customizes a server's treatment of requests.
#[derive(Clone, Default)]
pub struct ServerHooks {
    /// By default no faults are injected.
    pub faults: Option<FaultHook>,
    /// By default `system:masters` may do everything, and other users what every API server allows.
    pub authorizer: Option<AuthorizerHook>,
    /// By default requests are not logged.
    pub log: Option<LogHook>,
}

impl std::fmt::Debug for ServerHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerHooks").finish_non_exhaustive()
    }
}
