//! Field selectors.

use serde_json::Value;

use crate::refusal::Refusal;
use crate::resource::{EVENTS, NAMESPACES, NODES, PODS, REPLICA_SETS, Resource, SECRETS};

/// What fields have to be like: all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<Requirement>);

#[derive(Clone, Debug)]
struct Requirement {
    /// A JSON pointer.
    path: String,
    value: String,
    is_equal: bool,
}

const NAME: &str = "/metadata/name";
const NAMESPACE: &str = "/metadata/namespace";

impl Fields {
    pub(super) fn parse(resource: &Resource, selector: &str) -> Result<Self, Refusal> {
        let parts = selector
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let requirements = parts.map(|part| {
            let unequal = part.split_once("!=").map(|split| (split, false));
            let equal = || part.split_once("==").or_else(|| part.split_once('='));
            let found = unequal.or_else(|| equal().map(|split| (split, true)));
            let ((field, value), is_equal) = found.ok_or_else(|| {
                Refusal::bad_request(format!(
                    "invalid field selector: {part:?}; can't understand it"
                ))
            })?;
            check(resource, field)?;
            Ok(Requirement {
                path: format!("/{}", field.replace('.', "/")),
                value: value.to_owned(),
                is_equal,
            })
        });
        requirements.collect::<Result<_, _>>().map(Self)
    }

    /// What the key alone decides; nothing if it does not.
    pub(super) fn by_key(&self, namespace: &str, name: &str) -> Option<bool> {
        let mut decided = Some(true);
        for requirement in &self.0 {
            let found = match requirement.path.as_str() {
                NAME => name,
                NAMESPACE => namespace,
                _ => {
                    decided = None;
                    continue;
                }
            };
            if (found == requirement.value) != requirement.is_equal {
                return Some(false);
            }
        }
        decided
    }

    pub(super) fn admit(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let found = match object.pointer(&requirement.path) {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => default_of(&requirement.path).to_owned(),
                Some(other) => other.to_string(),
            };
            (found == requirement.value) == requirement.is_equal
        })
    }
}

/// What an absent field counts as.
fn default_of(path: &str) -> &str {
    match path {
        "/spec/unschedulable" => "false",
        "/status/replicas" => "0",
        _ => "",
    }
}

/// Which fields there are besides name and namespace.
fn more_fields(resource: &Resource) -> &'static [&'static str] {
    match resource {
        r if *r == PODS => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        r if *r == NODES => &["spec.unschedulable"],
        r if *r == NAMESPACES => &["status.phase"],
        r if *r == SECRETS => &["type"],
        r if *r == REPLICA_SETS => &["status.replicas"],
        r if r.plural() == EVENTS.plural() => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        _ => &[],
    }
}

fn check(resource: &Resource, field: &str) -> Result<(), Refusal> {
    let more = more_fields(resource);
    if ["metadata.name", "metadata.namespace"].contains(&field) || more.contains(&field) {
        return Ok(());
    }
    Err(Refusal::bad_request(if more.is_empty() {
        format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        )
    } else {
        format!("field label not supported: {field}")
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_compared_as_far_as_a_resource_can_be_asked() {
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "nodeName": "n1" } });
        for (selector, admits) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a,spec.nodeName=n1", true),
            ("spec.nodeName!=n1", false),
            ("status.phase=", true),
        ] {
            let fields = Fields::parse(&PODS, selector).unwrap();
            assert_eq!(fields.admit(&pod), admits, "{selector}");
        }
        assert!(Fields::parse(&NODES, "spec.nodeName=n1").is_err());
        assert!(Fields::parse(&PODS, "metadata.name").is_err());
    }

    #[test]
    fn the_key_decides_where_it_can() {
        let by_key = |selector, namespace, name| {
            Fields::parse(&PODS, selector)
                .unwrap()
                .by_key(namespace, name)
        };
        assert_eq!(by_key("", "ns", "a"), Some(true));
        assert_eq!(by_key("metadata.name=a", "ns", "a"), Some(true));
        assert_eq!(by_key("metadata.name=a", "ns", "b"), Some(false));
        assert_eq!(by_key("metadata.name=a,status.phase=x", "ns", "a"), None);
        assert_eq!(
            by_key("metadata.namespace!=ns,status.phase=x", "ns", "a"),
            Some(false)
        );
    }
}
