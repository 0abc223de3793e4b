//! The fields of the kinds that kubectl writes as protobuf: as far as it can say them without a file.

use crate::kind::Kind;

/// A field: its number, its name in JSON, and how it is meant.
pub(crate) type Field = (u64, &'static str, Shape);

/// The fields of a message.
pub(crate) type Fields = &'static [Field];

/// How a field is meant.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Text,
    Truth,
    Number,
    Message(&'static [Field]),
    /// Such as a port, which may have a name.
    NumberOrText,
    /// There may be several.
    Texts,
    Messages(&'static [Field]),
    /// Texts by names.
    Map,
    /// Bytes by names; in JSON they are base64.
    Data,
    /// The server's own: whatever a client says of it.
    Ours,
}

const OWNER: &[Field] = &[
    (1, "kind", Shape::Text),
    (3, "name", Shape::Text),
    (4, "uid", Shape::Text),
    (5, "apiVersion", Shape::Text),
    (6, "controller", Shape::Truth),
    (7, "blockOwnerDeletion", Shape::Truth),
];

const METADATA: Field = (
    1,
    "metadata",
    Shape::Message(&[
        (1, "name", Shape::Text),
        (2, "generateName", Shape::Text),
        (3, "namespace", Shape::Text),
        (4, "selfLink", Shape::Ours),
        (5, "uid", Shape::Text),
        (6, "resourceVersion", Shape::Text),
        (7, "generation", Shape::Ours),
        (8, "creationTimestamp", Shape::Ours),
        (9, "deletionTimestamp", Shape::Ours),
        (10, "deletionGracePeriodSeconds", Shape::Ours),
        (11, "labels", Shape::Map),
        (12, "annotations", Shape::Map),
        (13, "ownerReferences", Shape::Messages(OWNER)),
        (14, "finalizers", Shape::Texts),
        (17, "managedFields", Shape::Ours),
    ]),
);

const STATUS: Field = (3, "status", Shape::Ours);

const CONFIG_MAP: &[Field] = &[
    METADATA,
    (2, "data", Shape::Map),
    (3, "binaryData", Shape::Data),
    (4, "immutable", Shape::Truth),
];

const SECRET: &[Field] = &[
    METADATA,
    (2, "data", Shape::Data),
    (3, "type", Shape::Text),
    (4, "stringData", Shape::Map),
    (5, "immutable", Shape::Truth),
];

const NAMESPACE: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        Shape::Message(&[(1, "finalizers", Shape::Texts)]),
    ),
    STATUS,
];

const CONTAINER: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "image", Shape::Text),
    (3, "command", Shape::Texts),
    (4, "args", Shape::Texts),
    (
        6,
        "ports",
        Shape::Messages(&[
            (1, "name", Shape::Text),
            (2, "hostPort", Shape::Number),
            (3, "containerPort", Shape::Number),
            (4, "protocol", Shape::Text),
        ]),
    ),
    (
        7,
        "env",
        Shape::Messages(&[(1, "name", Shape::Text), (2, "value", Shape::Text)]),
    ),
    (14, "imagePullPolicy", Shape::Text),
    (16, "stdin", Shape::Truth),
    (17, "stdinOnce", Shape::Truth),
    (18, "tty", Shape::Truth),
];

const POD_SPEC: Field = (
    2,
    "spec",
    Shape::Message(&[
        (2, "containers", Shape::Messages(CONTAINER)),
        (3, "restartPolicy", Shape::Text),
        (6, "dnsPolicy", Shape::Text),
    ]),
);

const POD: &[Field] = &[METADATA, POD_SPEC, STATUS];

const SELECTOR: Shape = Shape::Message(&[(1, "matchLabels", Shape::Map)]);

const DEPLOYMENT: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        Shape::Message(&[
            (1, "replicas", Shape::Number),
            (2, "selector", SELECTOR),
            (3, "template", Shape::Message(&[METADATA, POD_SPEC])),
        ]),
    ),
    STATUS,
];

/// What the envelope of every request says of its content.
pub(super) const TYPE: &[Field] = &[(1, "apiVersion", Shape::Text), (2, "kind", Shape::Text)];

const SERVICE_ACCOUNT: &[Field] = &[METADATA, (4, "automountServiceAccountToken", Shape::Truth)];

const SERVICE: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        Shape::Message(&[
            (
                1,
                "ports",
                Shape::Messages(&[
                    (1, "name", Shape::Text),
                    (2, "protocol", Shape::Text),
                    (3, "port", Shape::Number),
                    (4, "targetPort", Shape::NumberOrText),
                    (5, "nodePort", Shape::Number),
                ]),
            ),
            (2, "selector", Shape::Map),
            (3, "clusterIP", Shape::Text),
            (4, "type", Shape::Text),
            (10, "externalName", Shape::Text),
        ]),
    ),
    STATUS,
];

const CLUSTER_ROLE: &[Field] = &[
    METADATA,
    (
        2,
        "rules",
        Shape::Messages(&[
            (1, "verbs", Shape::Texts),
            (2, "apiGroups", Shape::Texts),
            (3, "resources", Shape::Texts),
            (4, "resourceNames", Shape::Texts),
            (5, "nonResourceURLs", Shape::Texts),
        ]),
    ),
];

const CLUSTER_ROLE_BINDING: &[Field] = &[
    METADATA,
    (
        2,
        "subjects",
        Shape::Messages(&[
            (1, "kind", Shape::Text),
            (2, "apiGroup", Shape::Text),
            (3, "name", Shape::Text),
            (4, "namespace", Shape::Text),
        ]),
    ),
    (
        3,
        "roleRef",
        Shape::Message(&[
            (1, "apiGroup", Shape::Text),
            (2, "kind", Shape::Text),
            (3, "name", Shape::Text),
        ]),
    ),
];

const DISRUPTION_BUDGET: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        Shape::Message(&[
            (1, "minAvailable", Shape::NumberOrText),
            (2, "selector", SELECTOR),
            (3, "maxUnavailable", Shape::NumberOrText),
        ]),
    ),
    STATUS,
];

const ACCESS_REVIEW: &[Field] = &[
    METADATA,
    (
        2,
        "spec",
        Shape::Message(&[
            (
                1,
                "resourceAttributes",
                Shape::Message(&[
                    (1, "namespace", Shape::Text),
                    (2, "verb", Shape::Text),
                    (3, "group", Shape::Text),
                    (4, "version", Shape::Text),
                    (5, "resource", Shape::Text),
                    (6, "subresource", Shape::Text),
                    (7, "name", Shape::Text),
                ]),
            ),
            (
                2,
                "nonResourceAttributes",
                Shape::Message(&[(1, "path", Shape::Text), (2, "verb", Shape::Text)]),
            ),
        ]),
    ),
    STATUS,
];

const RULES_REVIEW: &[Field] = &[
    METADATA,
    (2, "spec", Shape::Message(&[(1, "namespace", Shape::Text)])),
    STATUS,
];

const WHO_REVIEW: &[Field] = &[METADATA, (2, "status", Shape::Ours)];

/// The fields of a review, by its plural.
pub(crate) fn review(plural: &str) -> Option<Fields> {
    match plural {
        "selfsubjectaccessreviews" => Some(ACCESS_REVIEW),
        "selfsubjectrulesreviews" => Some(RULES_REVIEW),
        "selfsubjectreviews" => Some(WHO_REVIEW),
        _ => None,
    }
}

/// The fields of a kind that is read so.
pub(crate) fn fields(kind: &Kind) -> Option<Fields> {
    match (kind.resource.group(), kind.resource.plural()) {
        ("", "configmaps") => Some(CONFIG_MAP),
        ("", "secrets") => Some(SECRET),
        ("", "namespaces") => Some(NAMESPACE),
        ("", "pods") => Some(POD),
        ("", "services") => Some(SERVICE),
        ("", "serviceaccounts") => Some(SERVICE_ACCOUNT),
        ("apps", "deployments") => Some(DEPLOYMENT),
        ("policy", "poddisruptionbudgets") => Some(DISRUPTION_BUDGET),
        ("rbac.authorization.k8s.io", "clusterroles") => Some(CLUSTER_ROLE),
        ("rbac.authorization.k8s.io", "clusterrolebindings") => Some(CLUSTER_ROLE_BINDING),
        _ => None,
    }
}
