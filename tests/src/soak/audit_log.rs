//! The writes to a seed cluster, from its API server's audit log.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::landscape::{LEASE_RECORDS, MARKER, RECORD};

/// The audit policy: writes to Deployments, to their scale, and to the Lease for leader election,
/// with their responses.
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

/// A write that the API server did not reject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedWrite {
    /// The revision of the store after the write. It orders the writes to all kinds.
    pub revision: u64,
    /// The time of the response.
    pub at: Timestamp,
    /// The name of the user.
    pub user: String,
    /// The object after the write.
    pub written: WrittenObject,
}

/// An object after a write, as far as the audit log shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrittenObject {
    /// The Lease for leader election, with its holder, which is empty if it was released, and the
    /// records of fences that are kept on it.
    Lease(String, BTreeMap<TargetKey, String>),
    /// A Deployment with all its fields.
    Deployment(TargetKey, DeploymentState),
    /// The scale of a Deployment: only its replicas are known.
    Scale(TargetKey, u64),
    /// An unknown state, because the client was gone before the response.
    Unknown(TargetKey),
}

/// The namespace and the name of a Deployment.
pub type TargetKey = (String, String);

/// The state of a Deployment, as far as a fence concerns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentState {
    /// The desired replicas, from `spec.replicas`.
    pub replicas: u64,
    /// True if the Deployment has the marker of a fence.
    pub marked: bool,
    /// The value of the record annotation.
    pub recorded: Option<String>,
}

/// Parses an audit log. Returns all writes that were not rejected, in the order of the store.
pub fn parse(log: &str) -> Result<Vec<AuditedWrite>> {
    let mut writes = Vec::new();
    for line in log.lines() {
        // A line may be truncated where the server was killed.
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let code = event["responseStatus"]["code"].as_u64();
        let is_rejected = code.is_some_and(|code| (400..499).contains(&code));
        if !is_rejected {
            let write = AuditedWrite::from_event(&event).with_context(|| line.to_owned())?;
            writes.push(write);
        }
    }
    // A write without a revision is placed by its time, before the next later response.
    writes.sort_by_key(|write| write.at);
    let mut next = u64::MAX;
    for write in writes.iter_mut().rev() {
        match write.written {
            WrittenObject::Unknown(_) => write.revision = next,
            _ => next = next.min(write.revision),
        }
    }
    let rank = |write: &AuditedWrite| {
        let is_known = !matches!(write.written, WrittenObject::Unknown(_));
        (write.revision, is_known)
    };
    writes.sort_by_key(rank);
    Ok(writes)
}

impl AuditedWrite {
    fn from_event(event: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (reference, object) = (&event["objectRef"], &event["responseObject"]);
        let key = (text(&reference["namespace"]), text(&reference["name"]));
        let replicas = object["spec"]["replicas"].as_u64().unwrap_or_default();
        let annotations = &object["metadata"]["annotations"];
        let resource = reference["resource"].as_str();
        let written = match (resource, reference["subresource"].as_str()) {
            (Some("leases"), _) => {
                let holder = text(&object["spec"]["holderIdentity"]);
                let records = annotations[LEASE_RECORDS].as_str();
                WrittenObject::Lease(holder, lease_records(records.unwrap_or("{}"))?)
            }
            (_, Some(_)) => WrittenObject::Scale(key.clone(), replicas),
            _ => {
                let state = DeploymentState {
                    replicas,
                    marked: annotations.get(MARKER).is_some(),
                    recorded: annotations[RECORD].as_str().map(str::to_owned),
                };
                // The path of a create request does not contain the name.
                let name = object["metadata"]["name"].as_str().unwrap_or(&key.1);
                WrittenObject::Deployment((key.0.clone(), name.to_owned()), state)
            }
        };
        let revision = object["metadata"]["resourceVersion"].as_str();
        let code = event["responseStatus"]["code"].as_u64();
        let (revision, written) = match (revision, written) {
            (Some(revision), written) if code.is_some_and(|code| code < 300) => {
                (revision.parse()?, written)
            }
            (_, WrittenObject::Lease(..)) => (0, WrittenObject::Unknown(key)),
            (
                _,
                WrittenObject::Deployment(key, _)
                | WrittenObject::Scale(key, _)
                | WrittenObject::Unknown(key),
            ) => (0, WrittenObject::Unknown(key)),
        };
        Ok(Self {
            revision,
            at: text(&event["stageTimestamp"]).parse()?,
            user: text(&event["user"]["username"]),
            written,
        })
    }
}

/// Parses the records on the Lease.
fn lease_records(text: &str) -> Result<BTreeMap<TargetKey, String>> {
    let targets: BTreeMap<String, BTreeMap<String, (u64, String, String)>> =
        serde_json::from_str(text)?;
    let mut records = BTreeMap::new();
    for (target, namespaces) in targets {
        let name = target.rsplit(' ').next().unwrap_or_default();
        for (namespace, (replicas, ..)) in namespaces {
            records.insert((namespace, name.to_owned()), replicas.to_string());
        }
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejected_writes_and_truncated_lines_are_skipped() {
        let line = |revision: u64, code: u64, replicas: u64| {
            let event = json!({
                "stageTimestamp": "2026-01-01T00:00:00.5Z",
                "user": { "username": "prober-0" },
                "objectRef": {
                    "resource": "deployments",
                    "namespace": "a",
                    "name": "kcm",
                    "subresource": "scale",
                },
                "responseStatus": { "code": code },
                "responseObject": {
                    "metadata": { "resourceVersion": revision.to_string() },
                    "spec": { "replicas": replicas },
                },
            });
            event.to_string()
        };
        let log = format!(
            "{}\n{}\n{}\n{{\"half",
            line(9, 200, 3),
            line(8, 409, 1),
            line(7, 200, 0)
        );
        let writes = parse(&log).unwrap();
        let found: Vec<_> = writes
            .iter()
            .map(|write| (write.revision, &write.written))
            .collect();
        let key = ("a".to_owned(), "kcm".to_owned());
        let first = WrittenObject::Scale(key.clone(), 0);
        let second = WrittenObject::Scale(key, 3);
        assert_eq!(found, [(7, &first), (9, &second)]);
    }
}
