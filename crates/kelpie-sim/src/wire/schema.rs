//! The protobuf fields of the kinds that kubectl sends in this encoding, as far as it can set them
//! without a file.

use crate::kind::ResourceKind;

/// A field: its number, its name in JSON, and its type.
pub(crate) type Field = (u64, &'static str, ProtoType);

/// The fields of a message.
pub(crate) type Fields = &'static [Field];

/// The type of a field.
#[derive(Clone, Copy)]
pub(crate) enum ProtoType {
    String,
    Bool,
    Int,
    Message(&'static [Field]),
    /// Such as a port, which may be named.
    IntOrString,
    /// A repeated string field.
    Strings,
    Messages(&'static [Field]),
    /// A map of strings.
    StringMap,
    /// A map of bytes; base64 in JSON.
    BytesMap,
    /// A field that only the server sets. The client's value is ignored.
    ServerOwned,
}

const OWNER_REFERENCE: &[Field] = &[
    (1, "kind", ProtoType::String),
    (3, "name", ProtoType::String),
    (4, "uid", ProtoType::String),
    (5, "apiVersion", ProtoType::String),
    (6, "controller", ProtoType::Bool),
    (7, "blockOwnerDeletion", ProtoType::Bool),
];

const METADATA: Field = (
    1,
    "metadata",
    ProtoType::Message(&[
        (1, "name", ProtoType::String),
        (2, "generateName", ProtoType::String),
        (3, "namespace", ProtoType::String),
        (4, "selfLink", ProtoType::ServerOwned),
        (5, "uid", ProtoType::String),
        (6, "resourceVersion", ProtoType::String),
        (7, "generation", ProtoType::ServerOwned),
        (8, "creationTimestamp", ProtoType::ServerOwned),
        (9, "deletionTimestamp", ProtoType::ServerOwned),
        (10, "deletionGracePeriodSeconds", ProtoType::ServerOwned),
        (11, "labels", ProtoType::StringMap),
        (12, "annotations", ProtoType::StringMap),
        (13, "ownerReferences", ProtoType::Messages(OWNER_REFERENCE)),
        (14, "finalizers", ProtoType::Strings),
        (17, "managedFields", ProtoType::ServerOwned),
    ]),
);

const STATUS: Field = (3, "status", ProtoType::ServerOwned);

const CONFIG_MAP: &[Field] = &[
    METADATA,
    (2, "data", ProtoType::StringMap),
    (3, "binaryData", ProtoType::BytesMap),
    (4, "immutable", ProtoType::Bool),
];

const SECRET: &[Field] = &[
    METADATA,
    (2, "data", ProtoType::BytesMap),
    (3, "type", ProtoType::String),
    (4, "stringData", ProtoType::StringMap),
    (5, "immutable", ProtoType::Bool),
];

const NAMESPACE: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        ProtoType::Message(&[(1, "finalizers", ProtoType::Strings)]),
    ),
    STATUS,
];

const CONTAINER: &[Field] = &[
    (1, "name", ProtoType::String),
    (2, "image", ProtoType::String),
    (3, "command", ProtoType::Strings),
    (4, "args", ProtoType::Strings),
    (
        6,
        "ports",
        ProtoType::Messages(&[
            (1, "name", ProtoType::String),
            (2, "hostPort", ProtoType::Int),
            (3, "containerPort", ProtoType::Int),
            (4, "protocol", ProtoType::String),
        ]),
    ),
    (
        7,
        "env",
        ProtoType::Messages(&[
            (1, "name", ProtoType::String),
            (2, "value", ProtoType::String),
        ]),
    ),
    (14, "imagePullPolicy", ProtoType::String),
    (16, "stdin", ProtoType::Bool),
    (17, "stdinOnce", ProtoType::Bool),
    (18, "tty", ProtoType::Bool),
];

const POD_SPEC: Field = (
    2,
    "spec",
    ProtoType::Message(&[
        (2, "containers", ProtoType::Messages(CONTAINER)),
        (3, "restartPolicy", ProtoType::String),
        (6, "dnsPolicy", ProtoType::String),
    ]),
);

const POD: &[Field] = &[METADATA, POD_SPEC, STATUS];

const SELECTOR: ProtoType = ProtoType::Message(&[(1, "matchLabels", ProtoType::StringMap)]);

const DEPLOYMENT: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        ProtoType::Message(&[
            (1, "replicas", ProtoType::Int),
            (2, "selector", SELECTOR),
            (3, "template", ProtoType::Message(&[METADATA, POD_SPEC])),
        ]),
    ),
    STATUS,
];

/// The fields of the envelope's type.
pub(super) const TYPE_META: &[Field] = &[
    (1, "apiVersion", ProtoType::String),
    (2, "kind", ProtoType::String),
];

const SERVICE_ACCOUNT: &[Field] = &[
    METADATA,
    (4, "automountServiceAccountToken", ProtoType::Bool),
];

const SERVICE: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        ProtoType::Message(&[
            (
                1,
                "ports",
                ProtoType::Messages(&[
                    (1, "name", ProtoType::String),
                    (2, "protocol", ProtoType::String),
                    (3, "port", ProtoType::Int),
                    (4, "targetPort", ProtoType::IntOrString),
                    (5, "nodePort", ProtoType::Int),
                ]),
            ),
            (2, "selector", ProtoType::StringMap),
            (3, "clusterIP", ProtoType::String),
            (4, "type", ProtoType::String),
            (10, "externalName", ProtoType::String),
        ]),
    ),
    STATUS,
];

const CLUSTER_ROLE: &[Field] = &[
    METADATA,
    (
        2,
        "rules",
        ProtoType::Messages(&[
            (1, "verbs", ProtoType::Strings),
            (2, "apiGroups", ProtoType::Strings),
            (3, "resources", ProtoType::Strings),
            (4, "resourceNames", ProtoType::Strings),
            (5, "nonResourceURLs", ProtoType::Strings),
        ]),
    ),
];

const CLUSTER_ROLE_BINDING: &[Field] = &[
    METADATA,
    (
        2,
        "subjects",
        ProtoType::Messages(&[
            (1, "kind", ProtoType::String),
            (2, "apiGroup", ProtoType::String),
            (3, "name", ProtoType::String),
            (4, "namespace", ProtoType::String),
        ]),
    ),
    (
        3,
        "roleRef",
        ProtoType::Message(&[
            (1, "apiGroup", ProtoType::String),
            (2, "kind", ProtoType::String),
            (3, "name", ProtoType::String),
        ]),
    ),
];

const POD_DISRUPTION_BUDGET: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        ProtoType::Message(&[
            (1, "minAvailable", ProtoType::IntOrString),
            (2, "selector", SELECTOR),
            (3, "maxUnavailable", ProtoType::IntOrString),
        ]),
    ),
    STATUS,
];

const ACCESS_REVIEW: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        ProtoType::Message(&[
            (
                1,
                "resourceAttributes",
                ProtoType::Message(&[
                    (1, "namespace", ProtoType::String),
                    (2, "verb", ProtoType::String),
                    (3, "group", ProtoType::String),
                    (4, "version", ProtoType::String),
                    (5, "resource", ProtoType::String),
                    (6, "subresource", ProtoType::String),
                    (7, "name", ProtoType::String),
                ]),
            ),
            (
                2,
                "nonResourceAttributes",
                ProtoType::Message(&[
                    (1, "path", ProtoType::String),
                    (2, "verb", ProtoType::String),
                ]),
            ),
        ]),
    ),
    STATUS,
];

const RULES_REVIEW: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        ProtoType::Message(&[(1, "namespace", ProtoType::String)]),
    ),
    STATUS,
];

const SELF_REVIEW: &[Field] = &[METADATA, (2, "status", ProtoType::ServerOwned)];

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
