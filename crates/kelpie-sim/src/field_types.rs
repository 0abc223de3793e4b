//! Type checks for the fields that the simulator and its clients rely on. A real API server decodes
//! every field.

use serde_json::Value;

use crate::clock;
use crate::kind::ResourceKind;
use crate::resource::{
    CONFIG_MAPS, DEPLOYMENTS, ENDPOINT_SLICES, GroupResource, LEASES, NODES, PODS, REPLICA_SETS,
    SECRETS, STATEFUL_SETS,
};

/// The JSON type of a field.
#[derive(Clone, Copy, Debug)]
enum FieldType {
    Object,
    /// A list of objects.
    Objects,
    /// An object whose values are strings or null.
    StringMap,
    /// A list of strings.
    Strings,
    String,
    /// An integer that fits into 32 bits.
    Int32,
    Time,
}

/// The checked fields of all kinds, as JSON pointers.
const COMMON: [(&str, FieldType); 6] = [
    ("/metadata", FieldType::Object),
    ("/metadata/name", FieldType::String),
    ("/metadata/labels", FieldType::StringMap),
    ("/metadata/annotations", FieldType::StringMap),
    ("/metadata/finalizers", FieldType::Strings),
    ("/metadata/ownerReferences", FieldType::Objects),
];

/// The checked fields of all built-in kinds.
const BUILT_IN: [(&str, FieldType); 3] = [
    ("/spec", FieldType::Object),
    ("/status", FieldType::Object),
    ("/status/conditions", FieldType::Objects),
];

/// The checked fields of individual built-in kinds.
static BY_RESOURCE: [(GroupResource, &str, FieldType); 15] = [
    (LEASES, "/spec/holderIdentity", FieldType::String),
    (LEASES, "/spec/leaseDurationSeconds", FieldType::Int32),
    (LEASES, "/spec/acquireTime", FieldType::Time),
    (LEASES, "/spec/renewTime", FieldType::Time),
    (LEASES, "/spec/leaseTransitions", FieldType::Int32),
    (NODES, "/spec/taints", FieldType::Objects),
    (PODS, "/spec/containers", FieldType::Objects),
    (PODS, "/status/containerStatuses", FieldType::Objects),
    (DEPLOYMENTS, "/spec/replicas", FieldType::Int32),
    (REPLICA_SETS, "/spec/replicas", FieldType::Int32),
    (STATEFUL_SETS, "/spec/replicas", FieldType::Int32),
    (ENDPOINT_SLICES, "/endpoints", FieldType::Objects),
    (CONFIG_MAPS, "/data", FieldType::StringMap),
    (SECRETS, "/data", FieldType::StringMap),
    (SECRETS, "/stringData", FieldType::StringMap),
];

impl FieldType {
    fn matches(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Objects => all(value, Value::is_object),
            Self::StringMap => value
                .as_object()
                .is_some_and(|map| map.values().all(|text| text.is_string() || text.is_null())),
            Self::Strings => all(value, Value::is_string),
            Self::String => value.is_string(),
            Self::Int32 => value
                .as_i64()
                .is_some_and(|count| i32::try_from(count).is_ok()),
            Self::Time => value.as_str().and_then(clock::parse).is_some(),
        }
    }
}

fn all(list: &Value, is_good: impl Fn(&Value) -> bool) -> bool {
    list.as_array().is_some_and(|list| list.iter().all(is_good))
}

/// Returns a message about the first field with the wrong type. A null field counts as absent.
pub(crate) fn type_error(kind: &ResourceKind, object: &Value) -> Option<String> {
    let own = BY_RESOURCE.iter();
    let own = own.filter(|(resource, ..)| *resource == kind.storage);
    let own = own.map(|(_, pointer, expected)| (*pointer, *expected));
    let built_in = BUILT_IN.into_iter().filter(|_| !kind.is_custom);
    let mut fields = COMMON.into_iter().chain(built_in).chain(own);
    let (pointer, expected) = fields.find(|(pointer, expected)| {
        let found = object.pointer(pointer).filter(|value| !value.is_null());
        found.is_some_and(|value| !expected.matches(value))
    })?;
    let field = pointer.replace('/', ".");
    Some(format!(
        "json: cannot unmarshal {}{field} into {expected:?}",
        kind.name
    ))
}
