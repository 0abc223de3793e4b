//! The `ValidatingAdmissionPolicy` of the guard and its binding.
//!
//! `until` and the permitted names are CEL literals in `spec.variables`. A `paramKind` would be
//! the natural place for them, but an API server may serve a frozen one without an error
//! (kubernetes/kubernetes#130887).

use serde::{Deserialize, Serialize};

use super::content::{GuardContent, GuardMark};
use super::permits::Permits;
use crate::Time;

/// The name of the policy, of its binding, and of the Lease whose dry run tells what is enforced.
pub const GUARD_NAME: &str = "kelpie-node-guard";

/// The annotation with the watchdog that keeps the guard.
pub const OWNER_ANNOTATION: &str = "kelpie.dev/owner";

/// Stands for all nodes in the list of permitted names. No node can have this name.
const ALL_NODES: &str = "*";

/// Matches the writes of kube-controller-manager to nodes, and the dry run that asks what is
/// enforced. All other requests pass before any further expression is evaluated.
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

/// The spec of the guard's policy. It has every default written out, so that it can be compared
/// with a stored one, and nothing can be added to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GuardPolicySpec {
    failure_policy: String,
    match_constraints: MatchConstraints,
    match_conditions: Vec<NamedExpression>,
    variables: Vec<NamedExpression>,
    validations: Vec<Validation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MatchConstraints {
    match_policy: String,
    namespace_selector: EmptySelector,
    object_selector: EmptySelector,
    resource_rules: Vec<ResourceRule>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptySelector {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceRule {
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    operations: Vec<String>,
    resources: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    scope: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedExpression {
    name: String,
    expression: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Validation {
    expression: String,
    message_expression: String,
}

impl GuardPolicySpec {
    /// Creates the spec with this content.
    pub fn new(content: &GuardContent) -> Self {
        let rule = |group: &str, resource: &str, names: &[&str]| ResourceRule {
            api_groups: texts(&[group]),
            api_versions: texts(&["v1"]),
            operations: texts(&["UPDATE"]),
            resources: texts(&[resource]),
            resource_names: texts(names),
            scope: "*".to_owned(),
        };
        let named = |name: &str, expression: &str| NamedExpression {
            name: name.to_owned(),
            expression: expression.to_owned(),
        };
        Self {
            failure_policy: "Ignore".to_owned(),
            match_constraints: MatchConstraints {
                match_policy: "Equivalent".to_owned(),
                namespace_selector: EmptySelector {},
                object_selector: EmptySelector {},
                resource_rules: vec![
                    rule("", "nodes/status", &[]),
                    rule("coordination.k8s.io", "leases", &[GUARD_NAME]),
                ],
            },
            match_conditions: vec![named("kube-controller-manager", MATCH_CONDITION)],
            variables: vec![
                named("until", &until_literal(content.until)),
                named("permits", &permits_literal(&content.permits)),
                named("permitsHash", &hash_literal(content)),
                named("turnsUnknown", TURNS_UNKNOWN),
                named("isPermitted", IS_PERMITTED),
            ],
            validations: vec![Validation {
                expression: VALIDATION.to_owned(),
                message_expression: MESSAGE.to_owned(),
            }],
        }
    }

    /// Returns the content; `None` if anything differs from what would be written for it.
    pub fn content(&self) -> Option<GuardContent> {
        let expression = |name: &str| {
            let mut variables = self.variables.iter();
            let variable = variables.find(|variable| variable.name == name);
            variable.map(|variable| variable.expression.as_str())
        };
        let content = GuardContent {
            until: read_until(expression("until")?)?,
            permits: read_permits(expression("permits")?)?,
        };
        (Self::new(&content) == *self).then_some(content)
    }
}

/// The spec of the binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GuardBindingSpec {
    policy_name: String,
    validation_actions: Vec<String>,
}

impl GuardBindingSpec {
    /// Returns whether the policy is bound as it was written.
    pub fn is_intact(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for GuardBindingSpec {
    fn default() -> Self {
        Self {
            policy_name: GUARD_NAME.to_owned(),
            validation_actions: texts(&["Deny"]),
        }
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
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
    use serde_json::{Value, json};

    use super::*;

    fn content(names: &[&str]) -> GuardContent {
        GuardContent {
            until: Time::from_unix(1_700_000_000, 0),
            permits: names.iter().copied().collect(),
        }
    }

    fn read(spec: Value) -> Option<GuardContent> {
        let spec: GuardPolicySpec = serde_json::from_value(spec).ok()?;
        spec.content()
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
            let spec = serde_json::to_value(GuardPolicySpec::new(&content)).unwrap();
            assert_eq!(read(spec), Some(content));
        }
    }

    #[test]
    fn altered_policies_have_no_content() {
        let original = serde_json::to_value(GuardPolicySpec::new(&content(&["a"]))).unwrap();
        let edits: [(&str, Value); 6] = [
            ("/failurePolicy", "Fail".into()),
            ("/validations/0/expression", "true".into()),
            ("/variables/1/expression", "['a', 'b'] + ['c']".into()),
            ("/variables/0/expression", "timestamp('now')".into()),
            ("/matchConditions", json!([])),
            ("/matchConstraints/resourceRules", json!([])),
        ];
        for (pointer, value) in edits {
            let mut edited = original.clone();
            *edited.pointer_mut(pointer).unwrap() = value;
            assert_eq!(read(edited), None, "{pointer}");
        }
        let mut extended = original;
        extended["paramKind"] = json!({ "kind": "ConfigMap" });
        assert_eq!(read(extended), None);
    }

    #[test]
    fn altered_bindings_are_not_intact() {
        let mut spec = serde_json::to_value(GuardBindingSpec::default()).unwrap();
        let read = |spec: &Value| serde_json::from_value::<GuardBindingSpec>(spec.clone());
        assert!(read(&spec).unwrap().is_intact());
        spec["validationActions"] = json!(["Audit"]);
        assert!(!read(&spec).unwrap().is_intact());
        spec["matchResources"] = json!({});
        assert!(read(&spec).is_err());
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
