//! Questions to the seed that every component asks.

use std::pin::pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kelpie_kube::seed::{Answer, Change, Need, Seed, SeedError, WatchError};
use tokio::time::timeout;

use super::row::{Row, Table};

/// For a whole list.
const PATIENCE: Duration = Duration::from_mins(1);

/// Its version. False: there is no point in going on.
pub(super) async fn version(seed: &Seed, table: &mut Table) -> bool {
    let role = seed.role();
    match seed.version().await {
        Ok(version) => {
            table.add(Row::ok(role, format!("Kubernetes {version}")));
            true
        }
        Err(error) => {
            table.add(refused(role, &error));
            false
        }
    }
}

/// Whether we may do all of that; `rbac`: the file that grants it. False: it cannot be asked.
pub(super) async fn permissions(
    seed: &Seed,
    needs: &[Need],
    rbac: &str,
    table: &mut Table,
) -> bool {
    for need in needs {
        match ask(seed, need, rbac).await {
            Ok(row) => table.add(row),
            Err(error) => {
                table.add(refused("permission", &error));
                return false;
            }
        }
    }
    true
}

fn refused(about: &str, error: &SeedError) -> Row {
    let remedy = match error {
        SeedError::Kubeconfig { .. } | SeedError::Setup { .. } => "mend the kubeconfig",
        SeedError::Denied { role, .. } => &format!("use credentials that the {role} accepts"),
        SeedError::Unavailable { role, .. } => {
            &format!("is this the right kubeconfig, and the {role} reachable?")
        }
    };
    Row::fail(about, error.to_string(), remedy)
}

async fn ask(seed: &Seed, need: &Need, rbac: &str) -> Result<Row, SeedError> {
    const ABOUT: &str = "permission";
    let questions: Vec<_> = need.permissions().collect();
    let mut denied = Vec::new();
    for (permission, answer) in seed.may(&questions).await? {
        if answer != Answer::Allowed {
            denied.push(permission.to_string());
        }
    }
    if denied.is_empty() {
        let verbs = need.verbs.join(", ");
        let first = questions.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        // The first question begins with the first verb.
        let object = first.split_once(' ').map_or("", |(_, object)| object);
        return Ok(Row::ok(ABOUT, format!("may {verbs} {object}")));
    }
    let found = format!("may not {}", denied.join(", nor "));
    Ok(match need.lost {
        Some(lost) => Row::warn(
            ABOUT,
            found,
            format!("without it there are no {lost}; {rbac} has it"),
        ),
        None => Row::fail(
            ABOUT,
            found,
            format!("it is for {}; {rbac} has it", need.reason),
        ),
    })
}

/// The first complete list of a watch; `rbac`: the file that grants it.
pub(super) async fn all<T>(
    what: &'static str,
    rbac: &str,
    changes: impl Stream<Item = Change<T>>,
    table: &mut Table,
) -> Option<Vec<T>> {
    let mut changes = pin!(changes);
    let listing = async {
        let mut found = Vec::new();
        while let Some(change) = changes.next().await {
            match change {
                Change::Restarted => found.clear(),
                Change::Applied(object) => found.push(object),
                Change::Deleted { .. } => {}
                Change::Synced => break,
                Change::Failed(error) => return Err(error),
            }
        }
        Ok(found)
    };
    let failed = match timeout(PATIENCE, listing).await {
        Ok(Ok(found)) => return Some(found),
        Ok(Err(error)) => {
            let remedy = match &error {
                WatchError::Denied { .. } => format!("{rbac} has what is needed"),
                WatchError::Absent { .. } => "is this a seed of Gardener?".to_owned(),
                _ => "is the seed's API server well?".to_owned(),
            };
            Row::fail(what, error.to_string(), remedy)
        }
        Err(_) => Row::fail(
            what,
            format!("not listed within {PATIENCE:?}"),
            "is the seed's API server well?",
        ),
    };
    table.add(failed);
    None
}
