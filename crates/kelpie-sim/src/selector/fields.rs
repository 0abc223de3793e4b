//! Field selectors such as `metadata.name=a,spec.nodeName!=b`.

use serde_json::Value;

use crate::resource::{EVENTS, GroupResource, NAMESPACES, NODES, PODS, REPLICA_SETS, SECRETS};
use crate::status_error::StatusError;

/// A parsed field selector. An object matches if it meets all conditions.
#[derive(Clone, Debug, Default)]
pub(super) struct FieldFilter(Vec<FieldCondition>);

#[derive(Clone, Debug)]
struct FieldCondition {
    /// The field, as a JSON pointer.
    path: String,
    value: String,
    is_equal: bool,
}

const NAME: &str = "/metadata/name";
const NAMESPACE: &str = "/metadata/namespace";

impl FieldFilter {
    pub(super) fn parse(resource: &GroupResource, selector: &str) -> Result<Self, StatusError> {
        let parts = selector
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        let requirements = parts.map(|part| {
            let unequal = part.split_once("!=").map(|split| (split, false));
            let equal = || part.split_once("==").or_else(|| part.split_once('='));
            let found = unequal.or_else(|| equal().map(|split| (split, true)));
            let ((field, value), is_equal) = found.ok_or_else(|| {
                StatusError::bad_request(format!(
                    "invalid field selector: {part:?}; can't understand it"
                ))
            })?;
            check_supported(resource, field)?;
            Ok(FieldCondition {
                path: format!("/{}", field.replace('.', "/")),
                value: value.to_owned(),
                is_equal,
            })
        });
        requirements.collect::<Result<_, _>>().map(Self)
    }

    /// Decides by namespace and name alone. Returns `None` if other fields have to be compared.
    pub(super) fn match_key(&self, namespace: &str, name: &str) -> Option<bool> {
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

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let found = match object.pointer(&requirement.path) {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => default_value(&requirement.path).to_owned(),
                Some(other) => other.to_string(),
            };
            (found == requirement.value) == requirement.is_equal
        })
    }
}

/// Returns the value that an absent field is compared as.
fn default_value(path: &str) -> &str {
    match path {
        "/spec/unschedulable" => "false",
        "/status/replicas" => "0",
        _ => "",
    }
}

/// Returns the fields that a resource supports in selectors besides name and namespace.
fn supported_fields(resource: &GroupResource) -> &'static [&'static str] {
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

fn check_supported(resource: &GroupResource, field: &str) -> Result<(), StatusError> {
    let more = supported_fields(resource);
    if ["metadata.name", "metadata.namespace"].contains(&field) || more.contains(&field) {
        return Ok(());
    }
    Err(StatusError::bad_request(if more.is_empty() {
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
    fn matches_supported_fields_only() {
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "nodeName": "n1" } });
        for (selector, matches) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a,spec.nodeName=n1", true),
            ("spec.nodeName!=n1", false),
            ("status.phase=", true),
        ] {
            let fields = FieldFilter::parse(&PODS, selector).unwrap();
            assert_eq!(fields.matches(&pod), matches, "{selector}");
        }
        assert!(FieldFilter::parse(&NODES, "spec.nodeName=n1").is_err());
        assert!(FieldFilter::parse(&PODS, "metadata.name").is_err());
    }

    #[test]
    fn key_decides_where_possible() {
        let match_key = |selector, namespace, name| {
            FieldFilter::parse(&PODS, selector)
                .unwrap()
                .match_key(namespace, name)
        };
        assert_eq!(match_key("", "ns", "a"), Some(true));
        assert_eq!(match_key("metadata.name=a", "ns", "a"), Some(true));
        assert_eq!(match_key("metadata.name=a", "ns", "b"), Some(false));
        assert_eq!(match_key("metadata.name=a,status.phase=x", "ns", "a"), None);
        assert_eq!(
            match_key("metadata.namespace!=ns,status.phase=x", "ns", "a"),
            Some(false)
        );
    }
}
