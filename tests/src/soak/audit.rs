//! What was written to the seed, by its audit log.

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::landscape::{MARKER, RECORD};

/// Writes to Deployments, to their scale and to the Lease of the leader, with what came of them.
pub(super) const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [create, update, patch]
  resources:
  - {group: apps, resources: [deployments, deployments/scale]}
- level: RequestResponse
  verbs: [create, update, patch]
  namespaces: [garden]
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
";

/// A write that the API server did not refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The revision of the store that it made: writes to all kinds are in one order.
    pub version: u64,
    /// When it was answered.
    pub at: Timestamp,
    /// Who made it.
    pub user: String,
    /// What stands there now.
    pub left: Left,
}

/// What a write has left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// The Lease of the leader, with its holder.
    Lease(String),
    /// A Deployment, whole.
    Whole(Place, Stand),
    /// A Deployment, of which only the replicas are told.
    Scale(Place, u64),
    /// Whoever asked was gone before the answer: what stands in the Deployment is not known.
    Unsure(Place),
}

/// A Deployment: its namespace and its name.
pub type Place = (String, String);

/// What stands in a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    /// Desired replicas.
    pub replicas: u64,
    /// It carries the marker of a fence.
    pub marked: bool,
    /// The recorded count, as it is written.
    pub recorded: Option<String>,
}

/// Every write of a log that was not refused, in the order of the store.
pub fn read(log: &str) -> Result<Vec<Write>> {
    let mut writes = Vec::new();
    for line in log.lines() {
        // The last line may be cut off where its server was killed.
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let code = event["responseStatus"]["code"].as_u64();
        let is_refused = code.is_some_and(|code| (400..499).contains(&code));
        if !is_refused {
            let write = Write::of(&event).with_context(|| line.to_owned())?;
            writes.push(write);
        }
    }
    // What has no version is placed by its time, before whatever was answered after it.
    writes.sort_by_key(|write| write.at);
    let mut next = u64::MAX;
    for write in writes.iter_mut().rev() {
        match write.left {
            Left::Unsure(_) => write.version = next,
            _ => next = next.min(write.version),
        }
    }
    let rank = |write: &Write| (write.version, !matches!(write.left, Left::Unsure(_)));
    writes.sort_by_key(rank);
    Ok(writes)
}

impl Write {
    fn of(event: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (about, object) = (&event["objectRef"], &event["responseObject"]);
        let place = (text(&about["namespace"]), text(&about["name"]));
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or_default();
        let annotations = &object["metadata"]["annotations"];
        let left = match (about["resource"].as_str(), about["subresource"].as_str()) {
            (Some("leases"), _) => Left::Lease(text(&object["spec"]["holderIdentity"])),
            (_, Some(_)) => Left::Scale(place.clone(), replicas),
            _ => {
                let stand = Stand {
                    replicas,
                    marked: annotations.get(MARKER).is_some(),
                    recorded: annotations[RECORD].as_str().map(str::to_owned),
                };
                // The name is not in the path of what is created.
                let name = object["metadata"]["name"].as_str().unwrap_or(&place.1);
                Left::Whole((place.0.clone(), name.to_owned()), stand)
            }
        };
        let version = object["metadata"]["resourceVersion"].as_str();
        let code = event["responseStatus"]["code"].as_u64();
        let (version, left) = match (version, left) {
            (Some(version), left) if code.is_some_and(|code| code < 300) => {
                (version.parse()?, left)
            }
            (_, Left::Lease(_)) => (0, Left::Unsure(place)),
            (_, Left::Whole(place, _) | Left::Scale(place, _) | Left::Unsure(place)) => {
                (0, Left::Unsure(place))
            }
        };
        Ok(Self {
            version,
            at: text(&event["stageTimestamp"]).parse()?,
            user: text(&event["user"]["username"]),
            left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_writes_and_half_lines_are_left_out_and_the_store_says_the_order() {
        let line = |version: u64, code: u64, replicas: u64| {
            format!(
                r#"{{"stageTimestamp":"2026-01-01T00:00:00.5Z","user":{{"username":"prober-0"}},"objectRef":{{"resource":"deployments","namespace":"a","name":"kcm","subresource":"scale"}},"responseStatus":{{"code":{code}}},"responseObject":{{"metadata":{{"resourceVersion":"{version}"}},"spec":{{"replicas":{replicas}}}}}}}"#
            )
        };
        let log = format!(
            "{}\n{}\n{}\n{{\"half",
            line(9, 200, 3),
            line(8, 409, 1),
            line(7, 200, 0)
        );
        let writes = read(&log).unwrap();
        let found: Vec<_> = writes
            .iter()
            .map(|write| (write.version, &write.left))
            .collect();
        let place = ("a".to_owned(), "kcm".to_owned());
        let (first, second) = (Left::Scale(place.clone(), 0), Left::Scale(place, 3));
        assert_eq!(found, [(7, &first), (9, &second)]);
    }
}
