//! The `ValidatingAdmissionPolicy` of the guard and its binding, as JSON.
//!
//! `until` and the permitted names are CEL literals in `spec.variables`. A `paramKind` would be
//! the natural place for them, but an API server may serve a frozen one without an error
//! (kubernetes/kubernetes#130887).

use serde_json::{Value, json};

use super::call::{StoredBinding, StoredPolicy};
use super::content::{GuardContent, GuardMark};
use super::permits::Permits;
use crate::Time;
use crate::prober::fence::ResourceVersion;

/// The name of the policy, of its binding, and of the Lease whose dry run tells what is enforced.
pub const GUARD_NAME: &str = "kelpie-node-guard";

/// The annotation with the watchdog that keeps the guard.
pub const OWNER_ANNOTATION: &str = "kelpie.dev/owner";

/// Stands for all nodes in the list of permitted names. No node can have this name.
const ALL_NODES: &str = "*";

/// Matches the writes of kube-controller-manager to nodes, and the dry run that asks what is
/// enforced. Everybody else passes before any other expression is evaluated.
const MATCH_CONDITION: &str = "request.resource.resource == 'leases' \
     ? has(request.dryRun) && request.dryRun && request.namespace == 'kube-system' \
     : request.userInfo.username in \
     ['system:serviceaccount:kube-system:node-controller', 'system:kube-controller-manager']";

/// A node that was not Unknown before turns Unknown, and the guard has not run out by the clock of
/// kube-controller-manager.
const TURNS_UNKNOWN: &str = "object.status.conditions.exists(c, c.type == 'Ready' \
     && c.status == 'Unknown' && timestamp(c.lastTransitionTime) < variables.until) \
     && oldObject.status.conditions.exists(c, c.type == 'Ready' && c.status != 'Unknown')";

const IS_PERMITTED: &str = "object.metadata.name in variables.permits || '*' in variables.permits";

const VALIDATION: &str = "request.resource.resource == 'leases' ? false \
     : !variables.turnsUnknown || variables.isPermitted";

const MESSAGE: &str = "'until=' + string(variables.until) + ' permits=' + variables.permitsHash";

/// Returns the policy with this content. The spec has every default written out, so that it can be
/// compared with a stored one.
pub fn policy_object(owner: &str, content: &GuardContent, replaces: Option<&str>) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(owner, replaces),
        "spec": policy_spec(content),
    })
}

/// Returns the binding of the policy.
pub fn binding_object(owner: &str, replaces: Option<&str>) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata(owner, replaces),
        "spec": binding_spec(),
    })
}

fn metadata(owner: &str, replaces: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": GUARD_NAME,
        "labels": { "app.kubernetes.io/managed-by": "kelpie" },
        "annotations": { OWNER_ANNOTATION: owner },
    });
    if let Some(version) = replaces {
        metadata["resourceVersion"] = version.into();
    }
    metadata
}

fn policy_spec(content: &GuardContent) -> Value {
    let rule = |group: &str, resource: &str| {
        json!({
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": [resource],
            "scope": "*",
        })
    };
    let mut lease_rule = rule("coordination.k8s.io", "leases");
    lease_rule["resourceNames"] = json!([GUARD_NAME]);
    let variable = |name: &str, expression: &str| json!({ "name": name, "expression": expression });
    json!({
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [rule("", "nodes/status"), lease_rule],
        },
        "matchConditions": [
            { "name": "kube-controller-manager", "expression": MATCH_CONDITION },
        ],
        "variables": [
            variable("until", &until_literal(content.until)),
            variable("permits", &permits_literal(&content.permits)),
            variable("permitsHash", &hash_literal(content)),
            variable("turnsUnknown", TURNS_UNKNOWN),
            variable("isPermitted", IS_PERMITTED),
        ],
        "validations": [
            { "expression": VALIDATION, "messageExpression": MESSAGE },
        ],
    })
}

fn binding_spec() -> Value {
    json!({ "policyName": GUARD_NAME, "validationActions": ["Deny"] })
}

/// Reads a policy of the cluster.
pub fn read_policy(object: &Value) -> Option<StoredPolicy> {
    let (version, owner) = read_metadata(object)?;
    Some(StoredPolicy {
        version,
        owner,
        content: read_content(object),
    })
}

/// Reads the content of a policy; `None` if anything in its spec differs from what would be written
/// for that content.
pub fn read_content(policy: &Value) -> Option<GuardContent> {
    let spec = &policy["spec"];
    content(spec).filter(|content| policy_spec(content) == *spec)
}

/// Reads a binding.
pub fn read_binding(object: &Value) -> Option<StoredBinding> {
    let (version, _) = read_metadata(object)?;
    Some(StoredBinding {
        version,
        is_intact: object["spec"] == binding_spec(),
    })
}

fn read_metadata(object: &Value) -> Option<(ResourceVersion, String)> {
    let metadata = &object["metadata"];
    let owner = metadata["annotations"][OWNER_ANNOTATION].as_str();
    let version = ResourceVersion::new(metadata["resourceVersion"].as_str()?);
    Some((version, owner.unwrap_or_default().to_owned()))
}

fn content(spec: &Value) -> Option<GuardContent> {
    let variables = spec["variables"].as_array()?;
    let expression = |name: &str| {
        let mut variables = variables.iter();
        let variable = variables.find(|variable| variable["name"] == name);
        variable?["expression"].as_str()
    };
    Some(GuardContent {
        until: read_until(expression("until")?)?,
        permits: read_permits(expression("permits")?)?,
    })
}

fn until_literal(until: Time) -> String {
    format!("timestamp('{}')", seconds_text(until))
}

fn read_until(expression: &str) -> Option<Time> {
    let text = expression.strip_prefix("timestamp('")?;
    read_seconds(text.strip_suffix("')")?)
}

/// Returns an instant as CEL prints it: in UTC, without a fraction where it has none.
fn seconds_text(time: Time) -> String {
    let timestamp = jiff::Timestamp::from_microsecond(time.as_micros());
    timestamp.map_or_else(|_| "1970-01-01T00:00:00Z".to_owned(), |it| it.to_string())
}

fn read_seconds(text: &str) -> Option<Time> {
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    Some(Time::from_micros(timestamp.as_microsecond()))
}

fn permits_literal(permits: &Permits) -> String {
    let names = permits.names().map_or_else(
        || vec![ALL_NODES],
        |names| names.iter().map(|name| &**name).collect(),
    );
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// Reads a list of names. Another spelling of the same list is found to differ.
fn read_permits(expression: &str) -> Option<Permits> {
    let list = expression.strip_prefix('[')?.strip_suffix(']')?;
    if list == format!("'{ALL_NODES}'") {
        return Some(Permits::ALL);
    }
    let names = list.split(", ").filter(|_| !list.is_empty());
    let names = names.map(|quoted| quoted.strip_prefix('\'')?.strip_suffix('\''));
    names.collect()
}

fn hash_literal(content: &GuardContent) -> String {
    format!("'{:016x}'", content.permits_hash())
}

/// Returns the message with which a policy of this content denies a request.
pub fn mark_message(content: &GuardContent) -> String {
    let (until, hash) = (seconds_text(content.until), content.permits_hash());
    format!("until={until} permits={hash:016x}")
}

/// Reads the message of a denied request; `None` if the guard's policy did not deny it.
pub fn read_mark(message: &str) -> Option<GuardMark> {
    let (_, rest) = message.split_once("until=")?;
    let (until, rest) = rest.split_once(" permits=")?;
    let hash = rest.get(..16)?;
    Some(GuardMark {
        until: read_seconds(until)?,
        permits_hash: u64::from_str_radix(hash, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(names: &[&str]) -> GuardContent {
        GuardContent {
            until: Time::from_unix(1_700_000_000, 0),
            permits: names.iter().copied().collect(),
        }
    }

    fn as_stored(mut object: Value) -> Value {
        object["metadata"]["resourceVersion"] = "7".into();
        object
    }

    #[test]
    fn policy_round_trip() {
        for content in [
            content(&[]),
            content(&["a"]),
            content(&["node-1.example", "node-2"]),
            GuardContent {
                permits: Permits::ALL,
                ..content(&[])
            },
        ] {
            let stored = read_policy(&as_stored(policy_object("us", &content, None))).unwrap();
            assert_eq!(stored.owner, "us");
            assert_eq!(stored.content, Some(content));
        }
    }

    #[test]
    fn altered_policies_have_no_content() {
        let original = as_stored(policy_object("us", &content(&["a"]), None));
        let edits: [(&str, Value); 6] = [
            ("/spec/failurePolicy", "Fail".into()),
            ("/spec/validations/0/expression", "true".into()),
            ("/spec/variables/1/expression", "['a', 'b'] + ['c']".into()),
            ("/spec/variables/0/expression", "timestamp('now')".into()),
            ("/spec/matchConditions", json!([])),
            ("/spec/matchConstraints/resourceRules", json!([])),
        ];
        for (pointer, value) in edits {
            let mut edited = original.clone();
            *edited.pointer_mut(pointer).unwrap() = value;
            let stored = read_policy(&edited).unwrap();
            assert_eq!(stored.content, None, "{pointer}");
        }
    }

    #[test]
    fn altered_bindings_are_not_intact() {
        let original = as_stored(binding_object("us", None));
        assert!(read_binding(&original).unwrap().is_intact);
        let mut edited = original;
        edited["spec"]["validationActions"] = json!(["Audit"]);
        assert!(!read_binding(&edited).unwrap().is_intact);
    }

    #[test]
    fn mark_of_a_denied_request() {
        let message = "leases.coordination.k8s.io \"kelpie-node-guard\" is forbidden: \
                       ValidatingAdmissionPolicy 'kelpie-node-guard' with binding \
                       'kelpie-node-guard' denied request: until=2023-11-14T22:13:20Z \
                       permits=00000000deadbeef";
        let mark = GuardMark {
            until: Time::from_unix(1_700_000_000, 0),
            permits_hash: 0xdead_beef,
        };
        assert_eq!(read_mark(message), Some(mark));
        for other in [
            "",
            "until=",
            "until=x permits=y",
            "until=2023-11-14T22:13:20Z permits=é",
        ] {
            assert_eq!(read_mark(other), None, "{other}");
        }
    }
}
