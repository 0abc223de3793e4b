//! Checks of an API server that every component needs: version, permissions and lists.

use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kelpie_kube::client::{ApiError, ClientError, ClusterClient};
use kelpie_kube::rbac::PolicyRule;
use kelpie_kube::watch::WatchEvent;
use tokio::time::timeout;

use super::table::{CheckRow, CheckTable};

/// The limit for one complete list.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);

/// Adds a row with the API server's version. Returns false if it cannot be read; then there is no
/// point in further checks.
pub(super) async fn check_version(cluster: &ClusterClient, table: &mut CheckTable) -> bool {
    let role = cluster.role();
    match cluster.version().await {
        Ok(version) => {
            table.add(CheckRow::ok(role, format!("Kubernetes {version}")));
            true
        }
        Err(error) => {
            table.add(client_failure(role, &error));
            false
        }
    }
}

/// Adds a row for each rule: granted or not. `rbac` is the file that grants the rules. Returns
/// false if the API server cannot be asked.
pub(super) async fn check_permissions(
    cluster: &ClusterClient,
    rules: &[PolicyRule],
    rbac: &str,
    table: &mut CheckTable,
) -> bool {
    for rule in rules {
        match check_rule(cluster, rule, rbac).await {
            Ok(row) => table.add(row),
            Err(error) => {
                table.add(client_failure("permission", &error));
                return false;
            }
        }
    }
    true
}

fn client_failure(subject: &str, error: &ClientError) -> CheckRow {
    let remedy = match error {
        ClientError::Kubeconfig { .. } | ClientError::Setup { .. } => "fix the kubeconfig",
        ClientError::Request {
            role,
            server,
            verb,
            cause,
        } => {
            let finding = format!("cannot {verb} the {role}'s API server at {server}: {cause}");
            return CheckRow::fail(subject, finding, remedy(cause));
        }
    };
    CheckRow::fail(subject, error.to_string(), remedy)
}

/// Returns what to do about a failed request from this host.
fn remedy(cause: &ApiError) -> &'static str {
    match cause {
        ApiError::TimedOut | ApiError::Unavailable(_) => {
            "check the kubeconfig, and that the API server is reachable from here"
        }
        cause => cause.remedy(),
    }
}

async fn check_rule(
    cluster: &ClusterClient,
    rule: &PolicyRule,
    rbac: &str,
) -> Result<CheckRow, ClientError> {
    const SUBJECT: &str = "permission";
    let denied = cluster.denied(rule).await?;
    if denied.is_empty() {
        return Ok(CheckRow::ok(SUBJECT, format!("may {rule}")));
    }
    let denied: Vec<_> = denied.iter().map(ToString::to_string).collect();
    let finding = format!("may not {}", denied.join(" or "));
    Ok(match rule.missing_if_denied {
        Some(missing) => CheckRow::warn(
            SUBJECT,
            finding,
            format!("apply {rbac}; without it there are no {missing}"),
        ),
        None => CheckRow::fail(
            SUBJECT,
            finding,
            format!("apply {rbac}; needed for {}", rule.reason),
        ),
    })
}

/// Returns the first complete list of a watch. `rbac` is the file that grants the watch. If the
/// list fails, adds the row that `failed` makes of the subject, the finding and the remedy, and
/// returns `None`.
pub(super) async fn list_all<T>(
    subject: &'static str,
    rbac: &str,
    events: impl Stream<Item = WatchEvent<T>>,
    failed: fn(&'static str, String, String) -> CheckRow,
    table: &mut CheckTable,
) -> Option<Vec<T>> {
    match first_list(rbac, events).await {
        Ok(objects) => Some(objects),
        Err((finding, remedy)) => {
            table.add(failed(subject, finding, remedy));
            None
        }
    }
}

/// Returns the first complete list of a watch, or the finding and its remedy.
async fn first_list<T>(
    rbac: &str,
    events: impl Stream<Item = WatchEvent<T>>,
) -> Result<Vec<T>, (String, String)> {
    let mut events = pin!(events);
    let listing = async {
        let mut objects = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                WatchEvent::Init => objects.clear(),
                WatchEvent::Apply(object) => objects.push(object),
                WatchEvent::Delete { .. } => {}
                WatchEvent::InitDone => break,
                WatchEvent::Error(error) => return Err(error),
            }
        }
        Ok(objects)
    };
    match timeout(LIST_TIMEOUT, listing).await {
        Ok(Ok(objects)) => Ok(objects),
        Ok(Err(error)) => {
            let remedy = match &error.cause {
                ApiError::Forbidden(_) => format!("apply {rbac}"),
                ApiError::NotFound => {
                    "install the kind, or set `source` to the platform of this seed".to_owned()
                }
                cause => remedy(cause).to_owned(),
            };
            let finding = match &error.cause {
                ApiError::Forbidden(_) | ApiError::NotFound | ApiError::Expired => {
                    error.to_string()
                }
                cause => format!("cannot list {}: {cause}", error.what),
            };
            Err((finding, remedy))
        }
        Err(_) => Err((
            format!("not listed within {LIST_TIMEOUT:?}"),
            "check the seed's API server".to_owned(),
        )),
    }
}
