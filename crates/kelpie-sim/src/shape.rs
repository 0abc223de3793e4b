//! Of what types the fields of objects are, as far as anybody here relies on them: a real API server
//! decodes every field.

use serde_json::Value;

use crate::clock;
use crate::kind::Kind;
use crate::resource::{
    CONFIG_MAPS, DEPLOYMENTS, ENDPOINT_SLICES, LEASES, NODES, PODS, REPLICA_SETS, Resource,
    SECRETS, STATEFUL_SETS,
};

/// The type of a field.
#[derive(Clone, Copy, Debug)]
enum Type {
    Object,
    /// A list of objects.
    Objects,
    /// Texts by names.
    Map,
    /// A list of texts.
    Texts,
    Text,
    /// A number of 32 bits.
    Count,
    Time,
}

/// The fields of every kind, as JSON pointers.
const EVERY: [(&str, Type); 6] = [
    ("/metadata", Type::Object),
    ("/metadata/name", Type::Text),
    ("/metadata/labels", Type::Map),
    ("/metadata/annotations", Type::Map),
    ("/metadata/finalizers", Type::Texts),
    ("/metadata/ownerReferences", Type::Objects),
];

/// The fields of those that are built in.
const BUILT_IN: [(&str, Type); 3] = [
    ("/spec", Type::Object),
    ("/status", Type::Object),
    ("/status/conditions", Type::Objects),
];

/// The fields of some of them.
static SOME: [(Resource, &[(&str, Type)]); 9] = [
    (
        LEASES,
        &[
            ("/spec/holderIdentity", Type::Text),
            ("/spec/leaseDurationSeconds", Type::Count),
            ("/spec/acquireTime", Type::Time),
            ("/spec/renewTime", Type::Time),
            ("/spec/leaseTransitions", Type::Count),
        ],
    ),
    (NODES, &[("/spec/taints", Type::Objects)]),
    (
        PODS,
        &[
            ("/spec/containers", Type::Objects),
            ("/status/containerStatuses", Type::Objects),
        ],
    ),
    (DEPLOYMENTS, &[("/spec/replicas", Type::Count)]),
    (REPLICA_SETS, &[("/spec/replicas", Type::Count)]),
    (STATEFUL_SETS, &[("/spec/replicas", Type::Count)]),
    (ENDPOINT_SLICES, &[("/endpoints", Type::Objects)]),
    (CONFIG_MAPS, &[("/data", Type::Map)]),
    (SECRETS, &[("/data", Type::Map), ("/stringData", Type::Map)]),
];

impl Type {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Objects => all(value, Value::is_object),
            Self::Map => value
                .as_object()
                .is_some_and(|map| map.values().all(|text| text.is_string() || text.is_null())),
            Self::Texts => all(value, Value::is_string),
            Self::Text => value.is_string(),
            Self::Count => value
                .as_i64()
                .is_some_and(|count| i32::try_from(count).is_ok()),
            Self::Time => value.as_str().and_then(clock::parse).is_some(),
        }
    }
}

fn all(list: &Value, is_good: impl Fn(&Value) -> bool) -> bool {
    list.as_array().is_some_and(|list| list.iter().all(is_good))
}

/// What is wrong with the types in an object, if something is. What is null is absent.
pub(crate) fn wrong(kind: &Kind, object: &Value) -> Option<String> {
    let some = SOME.iter().find(|(resource, _)| *resource == kind.shelf);
    let some = some.map(|(_, fields)| *fields).unwrap_or_default();
    let built_in = BUILT_IN.iter().filter(|_| !kind.is_custom);
    let mut fields = EVERY.iter().chain(built_in).chain(some);
    let (pointer, wanted) = fields.find(|(pointer, wanted)| {
        let found = object.pointer(pointer).filter(|value| !value.is_null());
        found.is_some_and(|value| !wanted.is(value))
    })?;
    let field = pointer.replace('/', ".");
    Some(format!(
        "json: cannot unmarshal {}{field} into {wanted:?}",
        kind.name
    ))
}
