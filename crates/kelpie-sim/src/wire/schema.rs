//! The protobuf fields of the kinds that are sent or received in this encoding. Of the kinds that
//! are received, these are the fields that kubectl can set without a file.

use ProtoType::{
    Bool, BytesMap, Flag, Int, IntOrString, Message, Messages, NonZeroInt, Quantities, ServerInt,
    ServerOwned, String, StringMap, Strings, Time,
};

use crate::kind::ResourceKind;

/// A field: its number, its name in JSON, and its type.
pub(crate) type Field = (u32, &'static str, ProtoType);

/// The fields of a message.
pub(crate) type Fields = &'static [Field];

/// The type of a field.
#[derive(Clone, Copy)]
pub(crate) enum ProtoType {
    String,
    Bool,
    /// A boolean that JSON omits if it is false.
    Flag,
    Int,
    /// A number that JSON omits if it is 0.
    NonZeroInt,
    Message(Fields),
    /// Such as a port, which may be named.
    IntOrString,
    /// A repeated string field.
    Strings,
    Messages(Fields),
    /// A map of strings.
    StringMap,
    /// A map of bytes; base64 in JSON.
    BytesMap,
    /// A map of quantities, which are messages with a string. Only sent.
    Quantities,
    /// A time that only the server sets. The client's value is ignored.
    Time,
    /// A number that only the server sets. The client's value is ignored.
    ServerInt,
    /// A field that only the server sets, and that is never sent. The client's value is ignored.
    ServerOwned,
}

const OWNER_REFERENCE: Fields = &[
    (1, "kind", String),
    (3, "name", String),
    (4, "uid", String),
    (5, "apiVersion", String),
    (6, "controller", Bool),
    (7, "blockOwnerDeletion", Bool),
];

const METADATA: Field = (1, "metadata", Message(OBJECT_META));

const OBJECT_META: Fields = &[
    (1, "name", String),
    (2, "generateName", String),
    (3, "namespace", String),
    (4, "selfLink", ServerOwned),
    (5, "uid", String),
    (6, "resourceVersion", String),
    (7, "generation", ServerInt),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", ServerInt),
    (11, "labels", StringMap),
    (12, "annotations", StringMap),
    (13, "ownerReferences", Messages(OWNER_REFERENCE)),
    (14, "finalizers", Strings),
    (17, "managedFields", ServerOwned),
];

const STATUS: Field = (3, "status", ServerOwned);

pub(super) const LEASE: Fields = &[METADATA, (2, "spec", Message(LEASE_SPEC))];

const LEASE_SPEC: Fields = &[
    (1, "holderIdentity", String),
    (2, "leaseDurationSeconds", Int),
    (3, "acquireTime", Time),
    (4, "renewTime", Time),
    (5, "leaseTransitions", Int),
];

pub(super) const NODE: Fields = &[
    METADATA,
    (2, "spec", Message(NODE_SPEC)),
    (3, "status", Message(NODE_STATUS)),
];

const NODE_SPEC: Fields = &[
    (1, "podCIDR", String),
    (3, "providerID", String),
    (4, "unschedulable", Bool),
    (5, "taints", Messages(TAINT)),
];

const TAINT: Fields = &[
    (1, "key", String),
    (2, "value", String),
    (3, "effect", String),
    (4, "timeAdded", Time),
];

const NODE_STATUS: Fields = &[
    (1, "capacity", Quantities),
    (2, "allocatable", Quantities),
    (4, "conditions", Messages(NODE_CONDITION)),
    (5, "addresses", Messages(NODE_ADDRESS)),
    (7, "nodeInfo", Message(NODE_INFO)),
];

const NODE_CONDITION: Fields = &[
    (1, "type", String),
    (2, "status", String),
    (3, "lastHeartbeatTime", Time),
    (4, "lastTransitionTime", Time),
    (5, "reason", String),
    (6, "message", String),
];

const NODE_ADDRESS: Fields = &[(1, "type", String), (2, "address", String)];

const NODE_INFO: Fields = &[
    (1, "machineID", String),
    (2, "systemUUID", String),
    (3, "bootID", String),
    (4, "kernelVersion", String),
    (5, "osImage", String),
    (6, "containerRuntimeVersion", String),
    (7, "kubeletVersion", String),
    (8, "kubeProxyVersion", String),
    (9, "operatingSystem", String),
    (10, "architecture", String),
];

const CONFIG_MAP: Fields = &[
    METADATA,
    (2, "data", StringMap),
    (3, "binaryData", BytesMap),
    (4, "immutable", Bool),
];

const SECRET: Fields = &[
    METADATA,
    (2, "data", BytesMap),
    (3, "type", String),
    (4, "stringData", StringMap),
    (5, "immutable", Bool),
];

const NAMESPACE_SPEC: Fields = &[(1, "finalizers", Strings)];
const NAMESPACE: Fields = &[METADATA, (2, "spec", Message(NAMESPACE_SPEC)), STATUS];

const CONTAINER: Fields = &[
    (1, "name", String),
    (2, "image", String),
    (3, "command", Strings),
    (4, "args", Strings),
    (6, "ports", Messages(CONTAINER_PORT)),
    (7, "env", Messages(ENV_VAR)),
    (14, "imagePullPolicy", String),
    (16, "stdin", Flag),
    (17, "stdinOnce", Flag),
    (18, "tty", Flag),
];

const CONTAINER_PORT: Fields = &[
    (1, "name", String),
    (2, "hostPort", NonZeroInt),
    (3, "containerPort", Int),
    (4, "protocol", String),
];

const ENV_VAR: Fields = &[(1, "name", String), (2, "value", String)];

const POD_SPEC: Fields = &[
    (2, "containers", Messages(CONTAINER)),
    (3, "restartPolicy", String),
    (6, "dnsPolicy", String),
];

const POD_TEMPLATE: Fields = &[METADATA, (2, "spec", Message(POD_SPEC))];
const POD: Fields = &[METADATA, (2, "spec", Message(POD_SPEC)), STATUS];

const SELECTOR: ProtoType = Message(&[(1, "matchLabels", StringMap)]);

const DEPLOYMENT: Fields = &[METADATA, (2, "spec", Message(DEPLOYMENT_SPEC)), STATUS];

const DEPLOYMENT_SPEC: Fields = &[
    (1, "replicas", Int),
    (2, "selector", SELECTOR),
    (3, "template", Message(POD_TEMPLATE)),
];

/// The fields of the envelope's type.
pub(super) const TYPE_META: Fields = &[(1, "apiVersion", String), (2, "kind", String)];

const SERVICE_ACCOUNT: Fields = &[METADATA, (4, "automountServiceAccountToken", Bool)];

const SERVICE: Fields = &[METADATA, (2, "spec", Message(SERVICE_SPEC)), STATUS];

const SERVICE_SPEC: Fields = &[
    (1, "ports", Messages(SERVICE_PORT)),
    (2, "selector", StringMap),
    (3, "clusterIP", String),
    (4, "type", String),
    (10, "externalName", String),
];

const SERVICE_PORT: Fields = &[
    (1, "name", String),
    (2, "protocol", String),
    (3, "port", Int),
    (4, "targetPort", IntOrString),
    (5, "nodePort", NonZeroInt),
];

const CLUSTER_ROLE: Fields = &[METADATA, (2, "rules", Messages(POLICY_RULE))];

const POLICY_RULE: Fields = &[
    (1, "verbs", Strings),
    (2, "apiGroups", Strings),
    (3, "resources", Strings),
    (4, "resourceNames", Strings),
    (5, "nonResourceURLs", Strings),
];

const CLUSTER_ROLE_BINDING: Fields = &[
    METADATA,
    (2, "subjects", Messages(SUBJECT)),
    (3, "roleRef", Message(ROLE_REF)),
];

const SUBJECT: Fields = &[
    (1, "kind", String),
    (2, "apiGroup", String),
    (3, "name", String),
    (4, "namespace", String),
];

const ROLE_REF: Fields = &[
    (1, "apiGroup", String),
    (2, "kind", String),
    (3, "name", String),
];

const POD_DISRUPTION_BUDGET: Fields = &[METADATA, (2, "spec", Message(BUDGET_SPEC)), STATUS];

const BUDGET_SPEC: Fields = &[
    (1, "minAvailable", IntOrString),
    (2, "selector", SELECTOR),
    (3, "maxUnavailable", IntOrString),
];

const ACCESS_REVIEW: Fields = &[METADATA, (2, "spec", Message(ACCESS_REVIEW_SPEC)), STATUS];

const ACCESS_REVIEW_SPEC: Fields = &[
    (1, "resourceAttributes", Message(RESOURCE_ATTRIBUTES)),
    (2, "nonResourceAttributes", Message(NON_RESOURCE_ATTRIBUTES)),
];

const RESOURCE_ATTRIBUTES: Fields = &[
    (1, "namespace", String),
    (2, "verb", String),
    (3, "group", String),
    (4, "version", String),
    (5, "resource", String),
    (6, "subresource", String),
    (7, "name", String),
];

const NON_RESOURCE_ATTRIBUTES: Fields = &[(1, "path", String), (2, "verb", String)];

const RULES_REVIEW_SPEC: Fields = &[(1, "namespace", String)];
const RULES_REVIEW: Fields = &[METADATA, (2, "spec", Message(RULES_REVIEW_SPEC)), STATUS];

const SELF_REVIEW: Fields = &[METADATA, (2, "status", ServerOwned)];

/// Returns the fields of a review, by its plural.
pub(crate) fn review_fields(plural: &str) -> Option<Fields> {
    match plural {
        "selfsubjectaccessreviews" => Some(ACCESS_REVIEW),
        "selfsubjectrulesreviews" => Some(RULES_REVIEW),
        "selfsubjectreviews" => Some(SELF_REVIEW),
        _ => None,
    }
}

/// Returns the fields of a kind, if it can be decoded.
pub(crate) fn kind_fields(kind: &ResourceKind) -> Option<Fields> {
    match (kind.resource.group(), kind.resource.plural()) {
        ("", "configmaps") => Some(CONFIG_MAP),
        ("", "secrets") => Some(SECRET),
        ("", "namespaces") => Some(NAMESPACE),
        ("", "pods") => Some(POD),
        ("", "services") => Some(SERVICE),
        ("", "serviceaccounts") => Some(SERVICE_ACCOUNT),
        ("apps", "deployments") => Some(DEPLOYMENT),
        ("policy", "poddisruptionbudgets") => Some(POD_DISRUPTION_BUDGET),
        ("rbac.authorization.k8s.io", "clusterroles") => Some(CLUSTER_ROLE),
        ("rbac.authorization.k8s.io", "clusterrolebindings") => Some(CLUSTER_ROLE_BINDING),
        _ => None,
    }
}
